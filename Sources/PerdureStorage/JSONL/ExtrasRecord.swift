import PerdureModel
import PerdureValue

/// One line of `perdure.jsonl`: what a commit does beside the records, and which of them it takes
/// away.
///
/// The line is written before the marker of its commit and counts only with it. Another program
/// that knows nothing of this file may use the sequence number of a commit that was cut off, so the
/// line also carries a digest of the marker that it belongs to.
struct ExtrasRecord {
  /// The commit; absent for a line that counts by itself.
  var commit: (sequence: Int64, digest: String)?
  /// The next id, where the records do not tell it.
  var nextId: Int64?
  var writes: [ExtraWrite]
  /// The ids of records that are gone; other programs still see them until the store is compacted.
  var removed: [Int64]

  init(
    commit: (sequence: Int64, digest: String)? = nil,
    nextId: Int64? = nil,
    writes: [ExtraWrite] = [],
    removed: [Int64] = []
  ) {
    self.commit = commit
    self.nextId = nextId
    self.writes = writes
    self.removed = removed
  }

  init(json: JSON) throws {
    let reader = try RecordReader(json, "extras")
    guard try reader.string("type") == "extras" else { throw reader.fail("type", "'extras'") }
    if reader.optional("seq") != nil {
      commit = (try reader.sequence(), try reader.string("marker").string)
    }
    nextId = try reader.optionalInt("nextId")
    if let nextId, !(2...EntryID.greatest + 1).contains(nextId) {
      throw reader.fail("nextId", "an id")
    }
    writes = try reader.array("writes").map { json in
      let reader = try RecordReader(json, "extra")
      return ExtraWrite(
        scope: try reader.string("scope").string,
        id: try reader.int("id"),
        value: reader.optional("value")
      )
    }
    removed = []
    guard reader.optional("removed") != nil else { return }
    removed = try reader.array("removed").map { json in
      guard let id = json.int, id > 0 else { throw reader.fail("removed", "a list of ids") }
      return id
    }
  }

  var json: JSON {
    var object: JSONObject = ["format": 1, "type": "extras"]
    if let commit {
      object["seq"] = .int(commit.sequence)
      object["marker"] = .string(commit.digest)
    }
    if let nextId { object["nextId"] = .int(nextId) }
    object["writes"] = .array(
      writes.map { write in
        var object: JSONObject = ["scope": .string(write.scope), "id": .int(write.id)]
        object["value"] = write.value
        return .object(object)
      }
    )
    if !removed.isEmpty { object["removed"] = .array(removed.map { .int($0) }) }
    return .object(object)
  }

  /// Returns what tells the marker with these bytes apart from others of its sequence number.
  static func digest(_ marker: [UInt8]) -> String {
    // FNV-1a: it guards against mix-ups, not against people.
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in marker { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    let digits = String(hash, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
