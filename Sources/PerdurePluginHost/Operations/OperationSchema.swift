import PerdureValue

/// A member of an operation's input.
struct OperationMember: Sendable {
  let name: String
  let type: MemberType
  let isRequired: Bool

  /// A member that has to be there.
  static func needs(_ name: String, _ type: MemberType) -> OperationMember {
    OperationMember(name: name, type: type, isRequired: true)
  }

  /// A member that may be absent.
  static func takes(_ name: String, _ type: MemberType) -> OperationMember {
    OperationMember(name: name, type: type, isRequired: false)
  }
}

/// Something that a plugin can ask of the host: where, with what, and what is done about it.
struct OperationSchema: Sendable {
  /// What is done about it.
  enum Body: Sendable {
    /// Is done at once, on the plugin's thread; `nil` means that the answer comes later.
    case now(@Sendable (OperationRun, Arguments) throws(OperationProblem) -> RequestResult?)
    /// Is done by a task that the request owns.
    case later(@Sendable (OperationRun, Arguments) async throws -> RequestResult)
  }

  let name: String
  let classes: CallClasses
  /// Whether it may be asked for without a function that gets the result.
  var isOneWay = false
  /// Whether the deadline of the call stands still while it is under way.
  var pauses = false
  /// Whether a cancelled request is answered by what it comes to, because it may be done already.
  var finishesAnyway = false
  /// Whether it is served while the call has a transaction.
  var worksInTransaction = false
  /// Whether it is served after the call has ended the run of its task.
  var outlivesRun = false
  let members: [OperationMember]
  let body: Body

  /// Reads an input; throws if a member is missing or has the wrong type.
  func read(_ input: JSONObject) throws(OperationProblem) -> Arguments {
    do throws(BorderProblem) {
      var known: Set<String> = ["must"]
      for member in members {
        known.insert(member.name)
        guard let value = input[JSONString(member.name)] else {
          guard !member.isRequired else {
            throw .shape("a missing member", at: "/\(member.name)")
          }
          continue
        }
        try member.type.check(value, at: "/\(member.name)")
      }
      try Self.checkMust(of: input, known, operation: name)
      return Arguments(object: input)
    } catch {
      throw OperationProblem(error, of: name)
    }
  }

  private static func checkMust(
    of input: JSONObject,
    _ known: Set<String>,
    operation: String
  ) throws(BorderProblem) {
    var reader = FieldReader(input)
    let fields = try reader.strings("must").filter { !known.contains($0) }
    guard fields.isEmpty else { throw .fields(fields, at: "/must") }
  }
}

/// The members of an input that fits its schema.
struct Arguments: Sendable {
  let object: JSONObject

  subscript(name: String) -> JSON? { object[JSONString(name)] }

  /// A string, or the empty one where none has to be there.
  func text(_ name: String) -> String { self[name]?.text ?? "" }

  /// A string of any kind.
  func string(_ name: String) -> JSONString? { self[name]?.string }

  /// Whether a member is true.
  func flag(_ name: String) -> Bool? { self[name]?.bool }

  /// An integer.
  func integer(_ name: String) -> Int64? { self[name]?.int }

  /// The number of a record.
  func id<Record>(_ name: String) -> Identifier<Record>? { Identifier(self[name]) }
}
