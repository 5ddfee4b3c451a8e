/// A regular expression as instructions for a machine that follows all ways at once.
struct PatternProgram: Sendable {
  /// One instruction; numbers are those of instructions.
  enum Instruction: Sendable {
    case take(Int)
    case fork(Int, Int)
    case jump(Int)
    case assert(PatternAssertion)
    /// Goes on if what begins at `start` matches here, or if it does not.
    case look(start: Int, isAhead: Bool, isNegative: Bool)
    case match
  }

  private(set) var instructions: [Instruction] = []
  private(set) var sets: [PatternSet] = []
  /// The first instruction.
  private(set) var start = 0

  private static let greatestSize = 20_000

  /// Translates an expression; repetitions of a fixed number are written out.
  init(_ node: PatternNode) throws(Pattern.Problem) {
    var waiting: [(look: Int, node: PatternNode, isAhead: Bool)] = []
    try add(node, isAhead: true, &waiting)
    try add(.match)
    while let (look, node, isAhead) = waiting.popLast() {
      guard case .look(_, _, let isNegative) = instructions[look] else { continue }
      instructions[look] = .look(
        start: instructions.count,
        isAhead: isAhead,
        isNegative: isNegative
      )
      try add(node, isAhead: isAhead, &waiting)
      try add(.match)
    }
  }

  @discardableResult
  private mutating func add(_ instruction: Instruction) throws(Pattern.Problem) -> Int {
    guard instructions.count < Self.greatestSize else {
      throw Pattern.Problem("it is too large with its repetitions written out")
    }
    instructions.append(instruction)
    return instructions.count - 1
  }

  private mutating func add(
    _ node: PatternNode,
    isAhead: Bool,
    _ waiting: inout [(look: Int, node: PatternNode, isAhead: Bool)]
  ) throws(Pattern.Problem) {
    switch node {
    case .empty: break
    case .set(let set):
      sets.append(set)
      try add(.take(sets.count - 1))
    case .sequence(let parts):
      // Looking behind runs from the right to the left.
      for part in isAhead ? parts : parts.reversed() { try add(part, isAhead: isAhead, &waiting) }
    case .choice(let alternatives): try add(alternatives, isAhead: isAhead, &waiting)
    case .repeated(let part, let least, let most):
      for _ in 0..<least { try add(part, isAhead: isAhead, &waiting) }
      guard let most else {
        let fork = try add(.fork(instructions.count + 1, 0))
        try add(part, isAhead: isAhead, &waiting)
        try add(.jump(fork))
        instructions[fork] = .fork(fork + 1, instructions.count)
        return
      }
      var forks: [Int] = []
      for _ in least..<most {
        forks.append(try add(.fork(0, 0)))
        try add(part, isAhead: isAhead, &waiting)
      }
      for fork in forks { instructions[fork] = .fork(fork + 1, instructions.count) }
    case .assertion(let assertion): try add(.assert(assertion))
    case .look(let part, let ahead, let isNegative):
      let look = try add(.look(start: 0, isAhead: ahead, isNegative: isNegative))
      waiting.append((look, part, ahead))
    }
  }

  private mutating func add(
    _ alternatives: [PatternNode],
    isAhead: Bool,
    _ waiting: inout [(look: Int, node: PatternNode, isAhead: Bool)]
  ) throws(Pattern.Problem) {
    var jumps: [Int] = []
    for (position, alternative) in alternatives.enumerated() {
      let isLast = position == alternatives.count - 1
      let fork = isLast ? nil : try add(.fork(0, 0))
      try add(alternative, isAhead: isAhead, &waiting)
      if let fork {
        jumps.append(try add(.jump(0)))
        instructions[fork] = .fork(fork + 1, instructions.count)
      }
    }
    for jump in jumps { instructions[jump] = .jump(instructions.count) }
  }
}

/// One search of one text.
struct PatternRun {
  private let program: PatternProgram
  private let text: [UInt32]
  /// How much work is left.
  private(set) var steps: Int
  private var isExhausted = false

  init(program: PatternProgram, text: [UInt32], steps: Int) {
    self.program = program
    self.text = text
    self.steps = steps
  }

  /// Whether the text has a match, or `nil` if it is not known within the steps.
  mutating func findsMatch() -> Bool? {
    let found = run(from: program.start, at: 0, isAhead: true, isAnchored: false)
    return isExhausted ? nil : found
  }

  /// The instructions at one place of the text, each once.
  private struct Threads {
    var list: [Int] = []
    var marks: [Int]
    var mark = 0

    init(_ count: Int) { marks = Array(repeating: 0, count: count) }

    mutating func clear() {
      list.removeAll(keepingCapacity: true)
      mark += 1
    }

    mutating func insert(_ instruction: Int) -> Bool {
      guard marks[instruction] != mark else { return false }
      marks[instruction] = mark
      return true
    }
  }

  /// Follows all ways from an instruction; anchored ways begin at `place` only.
  private mutating func run(from start: Int, at place: Int, isAhead: Bool, isAnchored: Bool) -> Bool
  {
    let size = program.instructions.count
    // Made anew for each look around, which is why this counts.
    steps -= isAnchored ? size / 16 : 0
    var (now, next) = (Threads(size), Threads(size))
    now.clear()
    var place = place
    if follow(start, at: place, into: &now) { return true }
    while !isExhausted {
      let point: UInt32?
      if isAhead {
        point = place < text.count ? text[place] : nil
      } else {
        point = place > 0 ? text[place - 1] : nil
      }
      guard let point, !(isAnchored && now.list.isEmpty) else { return false }
      place += isAhead ? 1 : -1
      next.clear()
      for instruction in now.list {
        guard case .take(let set) = program.instructions[instruction] else { continue }
        steps -= 1
        if program.sets[set].contains(point), follow(instruction + 1, at: place, into: &next) {
          return true
        }
      }
      if !isAnchored, follow(start, at: place, into: &next) { return true }
      if steps <= 0 { isExhausted = true }
      swap(&now, &next)
    }
    return false
  }

  /// Adds what can be reached from an instruction without taking anything; `true` at a match.
  private mutating func follow(_ first: Int, at place: Int, into threads: inout Threads) -> Bool {
    var waiting = [first]
    while let instruction = waiting.popLast(), !isExhausted {
      guard threads.insert(instruction) else { continue }
      steps -= 1
      if steps <= 0 { isExhausted = true }
      switch program.instructions[instruction] {
      case .take: threads.list.append(instruction)
      case .jump(let target): waiting.append(target)
      case .fork(let first, let second): waiting += [second, first]
      case .assert(let assertion):
        if holds(assertion, at: place) { waiting.append(instruction + 1) }
      case .look(let start, let isAhead, let isNegative):
        let found = run(from: start, at: place, isAhead: isAhead, isAnchored: true)
        if found != isNegative { waiting.append(instruction + 1) }
      case .match: return true
      }
    }
    return false
  }

  private func holds(_ assertion: PatternAssertion, at place: Int) -> Bool {
    switch assertion {
    case .start: return place == 0
    case .end: return place == text.count
    case .wordBoundary, .noWordBoundary:
      let before = place > 0 && PatternSet.word.contains(text[place - 1])
      let after = place < text.count && PatternSet.word.contains(text[place])
      return (before != after) == (assertion == .wordBoundary)
    }
  }
}
