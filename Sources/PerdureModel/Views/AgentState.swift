public import PerdureValue

/// What a program shows of a conversation at work, as it is on disk after one commit.
///
/// A program that follows events keeps one: it begins with that of a snapshot and applies every
/// event to it.
public struct AgentState: Sendable, Equatable {
  /// The active transcript: the newest head marker, then the other entries of its range.
  public package(set) var entries: [EntryRecord]
  /// What goes on: `run`?, `generation`?, `tools`, `nestedTools`, `compactions`,
  /// `compactionFailure`?.
  public package(set) var live: JSON
  /// The submissions that wait to be placed.
  public package(set) var inbox: [QueuedItem]
  /// The choices (`pi.agent`).
  public package(set) var agent: JSON
  /// What was used up (`pi.usage`).
  public package(set) var usage: JSON
  /// Whether the next end of a message belongs to an entry whose start was told.
  var expectsEnd = false

  /// Makes the state that these entries and documents show; absent documents count as new ones.
  package init(
    entries: [EntryRecord],
    live: JSON? = nil,
    inbox: JSON? = nil,
    agent: JSON? = nil,
    usage: JSON? = nil
  ) {
    self.entries = entries
    self.live = Self.shown(of: live)
    self.inbox = Self.items(of: inbox)
    self.agent = agent ?? [:]
    self.usage = usage ?? ["models": [:], "tools": [:]]
  }

  /// What of `pi.live` is shown.
  package static func shown(of document: JSON?) -> JSON {
    var object: JSONObject = [:]
    if let inputs = document?["run"]?["inputs"]?.array {
      object["run"] = ["inputs": .array(inputs)]
    }
    if let generation = document?["generation"]?.object {
      object["generation"] = .object(generation)
    }
    for key in ["tools", "nestedTools", "compactions"] as [JSONString] {
      object[key] = .array(document?[key]?.array ?? [])
    }
    object["compactionFailure"] = document?["compactionFailure"]
    return .object(object)
  }

  /// What of `pi.inbox` is shown.
  package static func items(of document: JSON?) -> [QueuedItem] {
    (document?["items"]?.array ?? []).compactMap { QueuedItem(json: $0) }
  }

  // MARK: What goes on

  /// The inputs of the run, or `nil` while the conversation is idle.
  public var runInputs: [SubmissionID]? {
    live["run"]?["inputs"]?.array.map { $0.compactMap { SubmissionID($0) } }
  }

  /// The answer so far, while one is arriving.
  public var message: JSON? { live["generation"]?["message"] }

  /// The attempt of the request that is being made, from 1.
  public var attempt: Int64? { live["generation"]?["attempt"]?.int }

  /// When the request is made again, in milliseconds since 1970, and why; `nil` if it is not.
  public var retry: (at: Int64, error: JSONString)? {
    let retry = live["generation"]?["retry"]
    guard let at = retry?["at"]?.int else { return nil }
    return (at, retry?["error"]?.string ?? "")
  }

  /// When the provider is asked again for an answer that it gives later.
  public var pollAt: Int64? { live["generation"]?["deferred"]?["pollAt"]?.int }

  /// The calls of the round, in order.
  public var tools: [ToolSlot] { slots("tools") }

  /// The calls that running calls have made, parents before children.
  public var nestedTools: [ToolSlot] { slots("nestedTools") }

  /// The compactions that are not decided.
  public var compactions: [CompactionStatus] {
    (live["compactions"]?.array ?? []).compactMap { CompactionStatus(json: $0) }
  }

  /// The newest compaction that failed since the last summary, as its task and its error.
  public var compactionFailure: (task: TaskID, error: JSONString)? {
    let failure = live["compactionFailure"]
    guard let task = TaskID(failure?["taskId"]) else { return nil }
    return (task, failure?["error"]?.string ?? "")
  }

  private func slots(_ key: JSONString) -> [ToolSlot] {
    (live[key]?.array ?? []).compactMap { ToolSlot(json: $0) }
  }

  /// The members of the event `snapshot`.
  public var json: JSON {
    var object: JSONObject = ["entries": .array(entries.map { $0.json })]
    for (key, value) in live.object ?? [:] { object[key] = value }
    object["inbox"] = .array(inbox.map { $0.json })
    object["agent"] = agent
    object["usage"] = usage
    return .object(object)
  }
}

/// A submission that waits to be placed.
public struct QueuedItem: Sendable, Equatable {
  public var id: SubmissionID
  /// `steer`, `followUp` or `write`.
  public var mode: JSONString

  init?(json: JSON) {
    guard let id = SubmissionID(json["id"]), let mode = json["mode"]?.string else { return nil }
    self.id = id
    self.mode = mode
  }

  var json: JSON { ["id": id.json, "mode": .string(mode)] }
}

/// A call that is shown while its round lasts.
public struct ToolSlot: Sendable, Equatable {
  /// How far a call is.
  public enum Status: String, Sendable { case pending, running, done }

  /// All that is shown of it, in the form of `pi.live`.
  public let json: JSON
  public let call: ToolEventCall
  public let status: Status

  /// Reads a slot; `nil` if it is none.
  package init?(json: JSON) {
    guard let call = ToolEventCall(slot: json),
      let status = Status(rawValue: json["status"]?.text ?? "")
    else { return nil }
    self.json = json
    self.call = call
    self.status = status
  }

  /// What it has put out, as far as it is kept; only while it runs.
  public var output: JSONString? { json["output"]?.string }

  /// The entry with the result, once there is one.
  public var entry: EntryID? { EntryID(json["entry"]) }
}

/// A compaction that is not decided.
public struct CompactionStatus: Sendable, Equatable {
  public var task: TaskID
  /// `manual`, `threshold` or `overflow`.
  public var reason: JSONString
  /// Whether the run waits for it.
  public var blocking: Bool

  package init?(json: JSON) {
    guard let task = TaskID(json["taskId"]) else { return nil }
    self.task = task
    reason = json["reason"]?.string ?? ""
    blocking = json["blocking"]?.bool ?? false
  }
}

extension [EntryRecord] {
  /// Adds what was appended to the transcript to its active part; returns how many entries a head
  /// marker put out of it.
  @discardableResult
  package mutating func advance(by entry: EntryRecord) -> Int {
    guard let start = entry.head else {
      append(entry)
      return 0
    }
    // What lies before the active entries does not come back, even if the marker asks for it.
    let kept = firstIndex { $0.head == nil && $0.id >= start } ?? count
    replaceSubrange(..<kept, with: [entry])
    return kept
  }
}
