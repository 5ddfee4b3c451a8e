import PerdureEngine
import PerdureModel
public import PerdureValue

/// Changes a document in place and records what was changed.
///
/// Each change costs what it changes, however large the document is: text that is appended is
/// stored as that text. A path names members by their coding keys and elements by their index:
///
///     try draft.append("more", to: ["pages", 3, "text"])
///
/// A change that cannot be made throws `invalidInput` and changes nothing. Whether the document
/// still has the form of its type is not checked here; it is when somebody reads it as that.
public struct DocumentEditor {
  let kind: JSONString
  var draft: DocumentDraft

  /// The whole document as it is now.
  public var value: JSON { draft.value }

  /// Returns the value at a path, or `nil` if there is none.
  public func value<Part: Decodable>(
    at path: [PathSegment],
    as type: Part.Type = Part.self
  ) throws -> Part? {
    guard let json = draft.value.value(at: path) else { return nil }
    do {
      return try json.decoded(as: type)
    } catch {
      throw failed("has no \(type) at this path", "\(error)")
    }
  }

  /// Sets a member or an element; an index equal to the length appends.
  public mutating func set(_ path: [PathSegment], to value: some Encodable) throws {
    let json = try encoded(value)
    try change { draft throws(OperationError) in try draft.set(path, json) }
  }

  /// Makes the value at a path equal to `value` by changing only what differs.
  public mutating func assign(_ path: [PathSegment], _ value: some Encodable) throws {
    var json = try encoded(value)
    if let old = draft.value.value(at: path) { json = json.arranged(like: old) }
    try change { draft throws(OperationError) in try draft.assign(path, json) }
  }

  /// Deletes a member, which may be absent, or removes an element.
  public mutating func remove(_ path: [PathSegment]) throws {
    try change { draft throws(OperationError) in try draft.delete(path) }
  }

  /// Appends to a text.
  public mutating func append(_ text: String, to path: [PathSegment]) throws {
    try change { draft throws(OperationError) in try draft.append(path, JSONString(text)) }
  }

  /// Appends an element to an array.
  public mutating func append(element: some Encodable, to path: [PathSegment]) throws {
    guard case .array(let elements)? = draft.value.value(at: path) else {
      throw failed("has no array at this path", nil)
    }
    try replace(elements.count..<elements.count, of: path, with: [encoded(element)])
  }

  /// Removes elements of an array and inserts others in their place.
  public mutating func replace(
    _ range: Range<Int>,
    of path: [PathSegment],
    with elements: [some Encodable]
  ) throws {
    let items = try elements.map { try encoded($0) }
    try change { draft throws(OperationError) in
      try draft.splice(path, at: range.lowerBound, remove: range.count, insert: items)
    }
  }

  private func encoded(_ value: some Encodable) throws -> JSON {
    do {
      return try JSON(encoding: value)
    } catch {
      throw failed("cannot take this value", "\(error)")
    }
  }

  mutating func change(_ body: (inout DocumentDraft) throws(OperationError) -> Void) throws {
    do {
      try body(&draft)
    } catch {
      throw failed("cannot be changed like this", error.description)
    }
  }

  private func failed(_ problem: String, _ cause: String?) -> PerdureError {
    PerdureError(.invalidInput, "document '\(kind.string)' \(problem)", cause: cause)
  }
}
