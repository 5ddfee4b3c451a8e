/// A regular expression as JSON Schema uses them: that of ECMA-262 with its flag `u`.
///
/// It only says whether a text has a match. It is run without backtracking: the time is bounded by
/// the length of the text times the size of the expression, and once more the length for each
/// nesting of lookaround. Not served are references back to groups and scripts as properties.
struct Pattern: Sendable {
  /// What is wrong with an expression, as a clause.
  struct Problem: Error, Equatable {
    var text: String

    init(_ text: String) { self.text = text }
  }

  let program: PatternProgram

  /// Reads an expression; what it repeats a fixed number of times may make it too large.
  init(_ source: JSONString) throws(Problem) {
    var parser = PatternParser(source)
    program = try PatternProgram(try parser.parse())
  }

  /// Takes an expression that was read otherwise.
  init(program: PatternProgram) { self.program = program }

  /// Whether the text has a match; `nil` if that took more than `steps`, which is counted down.
  func matches(_ text: JSONString, steps: inout Int) -> Bool? {
    // Texts of many megabytes are not even spread out.
    guard text.utf8Count <= steps else {
      steps = 0
      return nil
    }
    var run = PatternRun(program: program, text: text.codePoints, steps: steps)
    let result = run.findsMatch()
    steps = run.steps
    return result
  }
}

/// The parts of an expression.
indirect enum PatternNode {
  case empty
  case set(PatternSet)
  case sequence([PatternNode])
  case choice([PatternNode])
  /// `most` is absent for any number.
  case repeated(PatternNode, least: Int, most: Int?)
  case assertion(PatternAssertion)
  case look(PatternNode, isAhead: Bool, isNegative: Bool)
}

/// What holds at a place between two characters.
enum PatternAssertion: Sendable {
  case start
  case end
  case wordBoundary
  case noWordBoundary
}

extension JSONString {
  /// The code points, lone surrogates included.
  var codePoints: [UInt32] {
    if let text = unicode { return text.unicodeScalars.map(\.value) }
    let bytes = bytes
    var points: [UInt32] = []
    var index = 0
    while index < bytes.count, let next = WTF8.decode(bytes, at: index) {
      points.append(next.scalar)
      index += next.length
    }
    return points
  }
}
