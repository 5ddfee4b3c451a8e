import PerdureModel
import PerdureValue

/// The part of a visible transcript that one conversation of the line of ancestors holds.
struct Segment {
  let conversationId: ConversationID
  /// The last visible entry id.
  let upper: Int64
}

/// What a conversation sees: its own entries, and those of its ancestors up to where each fork
/// left.
enum Ancestry {
  /// Returns the segments that hold ids in `lower ... upper`, newest first.
  ///
  /// Throws `invalidRequest` if there is no such conversation.
  static func segments(
    of id: ConversationID,
    lower: Int64 = 1,
    upper: Int64 = EntryID.greatest,
    lookup: (ConversationID) throws -> ConversationRecord?
  ) throws -> [Segment] {
    guard var conversation = try lookup(id) else {
      throw PerdureError(.invalidRequest, "unknown conversation \(id)")
    }
    var segments = [Segment(conversationId: id, upper: upper)]
    var cap = upper
    var visited: Set<ConversationID> = [id]
    while let parent = conversation.parent {
      cap = min(cap, parent.at.value)
      guard cap >= lower, let next = try lookup(parent.conversationId) else { break }
      guard visited.insert(next.id).inserted else {
        throw PerdureError(.storeCorrupt, "conversation \(id) is its own ancestor")
      }
      segments.append(Segment(conversationId: next.id, upper: cap))
      conversation = next
    }
    return segments
  }

  /// Visits entries segment by segment until `limit` items are found, and makes a page of them.
  ///
  /// `visit` gets a conversation, the inclusive bounds and how many entries are wanted; it returns
  /// them in the order of the scan.
  static func page(
    _ query: EntryQuery,
    _ request: PageRequest,
    lookup: (ConversationID) throws -> ConversationRecord?,
    visit: (ConversationID, ClosedRange<Int64>, ScanOrder, Int) throws -> [EntryRecord]
  ) throws -> Page<EntryRecord> {
    let (order, after) = try request.start(default: .descending)
    var lower = query.minEntry?.value ?? 1
    var upper = query.maxEntry?.value ?? EntryID.greatest
    if let after {
      switch order {
      case .ascending: lower = max(lower, after == Int64.max ? after : after + 1)
      case .descending: upper = min(upper, after - 1)
      }
    }
    var segments = try segments(
      of: query.conversationId,
      lower: lower,
      upper: upper,
      lookup: lookup
    )
    if order == .ascending { segments.reverse() }
    let wanted = request.limit.addingReportingOverflow(1).partialValue
    var items: [EntryRecord] = []
    for segment in segments where lower <= segment.upper && items.count < wanted {
      items += try visit(
        segment.conversationId,
        lower...segment.upper,
        order,
        wanted - items.count
      )
    }
    return Page(items, limit: request.limit, order: order) { $0.id.value }
  }
}

extension Page {
  /// Makes a page of at most `limit` of the items; one more than that means that it goes on.
  init(_ items: [Item], limit: Int, order: ScanOrder, id: (Item) -> Int64) {
    guard items.count > limit else {
      self.init(items: items)
      return
    }
    let kept = Array(items.prefix(limit))
    self.init(items: kept, next: kept.last.map { Cursor(after: id($0), order: order) })
  }
}
