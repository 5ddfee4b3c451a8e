import PerdureModel
import PerdureValue

extension OperationSchema {
  static let writes: [OperationSchema] = [
    OperationSchema(
      name: "commit",
      classes: [.tool, .task, .abort, .created],
      finishesAnyway: true,
      worksInTransaction: true,
      members: [
        .takes("tx", .handle), .needs("steps", .list(.object, 0...CommitReader.stepLimit)),
        .takes("state", .object),
      ],
      body: .later { run, input in .object(try await run.commit(input)) }
    ),
    OperationSchema(
      name: "tx.begin",
      classes: [.tool, .task, .abort, .created],
      members: [],
      body: .later { run, _ in .object(try await run.beginTransaction()) }
    ),
    OperationSchema(
      name: "tx.abort",
      classes: [.tool, .task, .abort, .created],
      isOneWay: true,
      worksInTransaction: true,
      members: [.needs("tx", .handle)],
      body: .now { (run, input) throws(OperationProblem) in
        let handle = input.text("tx")
        guard let call = run.call else { throw .unknownHandle(handle) }
        try run.asking { () throws in try call.transactions.take(handle).finish() }
        return .object([:])
      }
    ),
    OperationSchema(
      name: "memo",
      classes: [.tool, .task, .abort, .hook],
      members: [.needs("name", .short), .takes("candidate", .json)],
      body: .later { run, input in .object(try await run.memo(input)) }
    ),
  ]
}

/// What plugins write.
extension OperationRun {
  private static let memoLimit = 64 << 10

  func beginTransaction() async throws -> JSONObject {
    let engine = try engine()
    guard let call else { return [:] }
    let (handle, tracking) = try await call.transactions.begin(self, engine)
    var answer: JSONObject = ["tx": .string(JSONString(handle))]
    if let task = engine.taskId, let record = try await engine.task(task, tracking) {
      answer["task"] = shown(record.json)
    }
    call.transactions.touch(handle)
    return answer
  }

  func commit(_ input: Arguments) async throws -> JSONObject {
    let engine = try engine()
    guard let call else { return [:] }
    var taken: (tracking: any ReadTracking, finish: @Sendable () -> Void)?
    if let handle = input["tx"]?.text { taken = try call.transactions.take(handle) }
    defer { taken?.finish() }
    let images = call.place.images
    var reader = CommitReader(core: core, kind: call.kind) { (value, at) throws(BorderProblem) in
      try images.restored(value, at: at)
    }
    do {
      let request = try reader.read(input.object)
      try await CommitAccess(core: core, engine: engine).check(request)
      let receipt = try await engine.commit(request, taken?.tracking)
      if request.state.map({ !$0.goesOn }) == true { call.endRun() }
      return answer(receipt)
    } catch {
      throw noted(Self.failure(of: error))
    }
  }

  private func answer(_ receipt: CommitReceipt) -> JSONObject {
    var answer = JSONObject()
    if let sequence = receipt.sequence { answer["seq"] = .int(sequence) }
    answer["ids"] = .object(
      JSONObject(
        receipt.ids.sorted { $0.key < $1.key }.map { (JSONString($0.key), .int($0.value)) }
      )
    )
    if let task = receipt.task { answer["task"] = shown(task.json) }
    return answer
  }

  /// Reports what breaks the plugin's permissions, and counts what breaks its limits.
  private func noted(_ problem: OperationProblem) -> OperationProblem {
    switch problem.reason {
    case "permission":
      core.environment.report(
        Report(
          type: "plugin_denied",
          message: "plugin \(core.id) was denied a commit in \(call?.label ?? "a call"):"
            + " \(problem.message)",
          extensionName: core.id
        )
      )
    case "limit": core.strike("asked for a commit beyond its limits: \(problem.message)")
    default: break
    }
    return problem
  }

  func memo(_ input: Arguments) async throws -> JSONObject {
    let name = input.text("name")
    guard !Names.isReserved(name) else {
      throw OperationProblem(
        .invalid,
        "a memo's name cannot begin with pi. or perdure.",
        reason: "shape",
        at: "/name"
      )
    }
    let engine = try engine()
    guard let candidate = input["candidate"] else {
      return try await engine.memo(JSONString(name)).map { ["value": $0] } ?? [:]
    }
    guard candidate.encoded.count <= Self.memoLimit else {
      throw OperationProblem(
        .busy,
        "the memo \(name) is larger than 64 KiB",
        reason: "limit",
        at: "/candidate"
      )
    }
    return ["value": try await engine.memo(JSONString(name), candidate)]
  }
}
