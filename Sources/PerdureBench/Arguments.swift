import PerdureModel

/// What the command line asks for.
struct Arguments: Sendable {
  var workload = ""
  var folder = ""
  /// Turns, repetitions, or the number of processes.
  var count: Int?
  /// How many entries a conversation has before what matters.
  var history = 0
  /// w2 and upgrades: how many conversations run at a time.
  var width = 64
  var sync = "full"
  /// A variant of the workload, such as the replay policy of w7.
  var mode = ""
  /// w7: this is the process after the one that was killed.
  var resumes = false
  /// w5 and w7: run the workload in processes of its own and measure those.
  var spawns = false
  /// w6 and upgrades: the plugin whose tool is called.
  var plugin = ""
  /// upgrades: another version of it.
  var next = ""

  static let usage = """
    usage: perdure-bench WORKLOAD --dir DIR [--n N] [--h H] [--sync full|normal] [--mode MODE]

      w1      N turns of one tool call each (200)
      w2      N conversations (500) of four tool turns and an answer; --width: how many at a time
              (64), --h: how many entries each of them has already (0)
      w3      N turns (20) in a conversation that has H entries (10, 1,000 and 10,000 one after
              another, each in a process of its own)
      w3open  a store with H entries (10,000) in one conversation: from opening it to the first
              request, N times (5), each in a process of its own
      w4      an answer of N pieces (20000) until a subscriber has all of it; --mode paced
              --mode unread: N commits beside a subscriber who never reads
      w5      a new store to its first committed answer; prints COMMITTED
              --spawn: times N such processes (9) from their start
      w6      calls of a plugin's tool, N of them in each repetition; --plugin FILE
              --mode border|task|inline: one part of it
              --mode runner: the plugin in a process of its own
      upgrades  N upgrades (1,000) between two versions of a plugin while --width prompts (64) call
              it, and before that 64 without any: --plugin FILE --next FILE
              --mode runner: the plugin in processes of its own
      w7      ten calls, to be killed in the fifth; --mode safe|unsafe, then again with --resume
              --spawn: kills and resumes by itself
      scale   a store of N entries (1,000,000) in conversations of H (1,000): opening it, its newest
              20 entries, its first request; a store that DIR has already is measured as it is
      append  N commits (200) that each append one word to a document of 1 MB
      seed    only makes the store of w3 and scale: N entries in conversations of H
      sleepers  N tasks (100,000) that sleep or wait, against 1,000: memory and wake-ups
      idle    N conversations (10,000) in which nothing happens: memory and wake-ups
      floor   what SQLite alone costs for N turns of two commits (200)

    Each prints JSON, one object on a line. DIR must be on a disk, not in memory.
    """

  /// Reads the words behind the program's name.
  init(_ words: some Collection<String>) throws {
    var words = Array(words)[...]
    guard let first = words.popFirst(), !first.hasPrefix("-") else {
      throw Self.wrong("the workload is missing")
    }
    workload = first
    while let word = words.popFirst() {
      switch word {
      case "--dir": folder = try Self.value(of: word, &words)
      case "--n": count = try Self.number(of: word, &words)
      case "--h": history = try Self.number(of: word, &words)
      case "--width": width = max(1, try Self.number(of: word, &words))
      case "--sync": sync = try Self.value(of: word, &words)
      case "--mode": mode = try Self.value(of: word, &words)
      case "--plugin": plugin = try Self.value(of: word, &words)
      case "--next": next = try Self.value(of: word, &words)
      case "--resume": resumes = true
      case "--spawn": spawns = true
      default: throw Self.wrong("the option \(word) is unknown")
      }
    }
    if sync == "default" { sync = "full" }
    guard sync == "full" || sync == "normal" else {
      throw Self.wrong("--sync takes full or normal, not '\(sync)'")
    }
    guard !folder.isEmpty else { throw Self.wrong("--dir is missing") }
  }

  private static func value(of option: String, _ words: inout ArraySlice<String>) throws -> String {
    guard let value = words.popFirst() else { throw wrong("\(option) needs a value") }
    return value
  }

  private static func number(of option: String, _ words: inout ArraySlice<String>) throws -> Int {
    let text = try value(of: option, &words)
    guard let number = Int(text), (0...10_000_000).contains(number) else {
      throw wrong("\(option) takes a number, not '\(text)'")
    }
    return number
  }

  static func wrong(_ message: String) -> PerdureError {
    PerdureError(.invalidInput, message, hint: "perdure-bench --help lists the workloads")
  }
}
