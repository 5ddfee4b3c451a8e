import PerdureModel
import PerdureValue

/// What operations on the engine have in common.
extension OperationRun {
  /// The engine behind the call.
  func engine() throws -> any CallOperations {
    guard let operations = call?.operations else {
      throw OperationProblem(
        .invalid,
        "\(request.operation.name) needs a call that the engine makes",
        reason: "not_here"
      )
    }
    return operations
  }

  /// What was read for the transaction that an input names.
  func tracking(_ input: Arguments) throws -> (any ReadTracking)? {
    guard let handle = input["tx"]?.text else { return nil }
    guard let call else { throw OperationProblem.unknownHandle(handle) }
    return try call.transactions.use(handle)
  }

  /// Notes that an operation of the transaction has ended.
  func finishTracking(_ input: Arguments) {
    if let handle = input["tx"]?.text { call?.transactions.rest(handle) }
  }

  /// The page that an input asks for.
  func page(_ input: Arguments) throws -> PageRequest {
    let order = input["order"]?.text.flatMap(ScanOrder.init(rawValue:))
    var page = PageRequest(limit: Int(input.integer("limit") ?? 100), order: order)
    if let cursor = input["cursor"] {
      page.cursor = try Cursor(json: cursor, defaultOrder: order ?? .ascending)
    }
    return page
  }

  static func object<Record>(
    _ page: Page<Record>,
    _ item: (Record) -> JSON
  ) -> JSONObject {
    var object: JSONObject = ["items": .array(page.items.map(item))]
    if let next = page.next { object["next"] = next.json }
    return object
  }

  /// Gives a value with its images left out.
  func shown(_ value: JSON) -> JSON { call?.place.images.elided(value) ?? value }

  /// Gives a value with the images that stand for sources.
  func restored(_ value: JSON, at pointer: String) throws -> JSON {
    guard let images = call?.place.images else { return value }
    do throws(BorderProblem) {
      return try images.restored(value, at: pointer)
    } catch {
      var problem = OperationProblem(error, of: request.operation.name)
      problem.code = .stale
      problem.reason = "unknown_handle"
      throw problem
    }
  }

  // MARK: Permissions

  /// Throws unless the plugin may look at a conversation, or write to it.
  func requireAccess(_ id: ConversationID, writing: Bool = false) async throws {
    let engine = try engine()
    switch core.grants.conversations {
    case .write: return
    case .read where !writing: return
    case .read, .own: break
    }
    guard try await engine.owns(id) else {
      throw denied(
        "conversation \(id)",
        "ask for the permission conversations: \(writing ? "write" : "read")"
      )
    }
  }

  /// An answer for what the manifest does not ask for.
  func denied(_ what: String, _ remedy: String) -> OperationProblem {
    core.environment.report(
      Report(
        type: "plugin_denied",
        message: "plugin \(core.id) was denied \(request.operation.name) of \(what)",
        extensionName: core.id
      )
    )
    return OperationProblem(
      .denied,
      "\(request.operation.name) is not allowed for \(what); \(remedy)",
      reason: "permission"
    )
  }

  // MARK: Errors

  /// What a plugin is told of an error of the host.
  static func failure(of error: any Error) -> OperationProblem {
    if let problem = error as? OperationProblem { return problem }
    if let refusal = error as? CallRefusal { return problem(of: refusal) }
    if let problem = error as? BorderProblem {
      return OperationProblem(problem, of: "the operation")
    }
    if let error = error as? FileError { return problem(of: error) }
    if let error = error as? ExecutionError { return problem(of: error) }
    guard let error = error as? PerdureError else {
      return error is CancellationError
        ? OperationProblem(.cancelled, "the operation was cancelled", reason: "abort")
        : OperationProblem(.internal, "the host failed to do it: \(error)", reason: "host")
    }
    if let reason = error.details?["reason"]?.text.flatMap(CallRefusal.Reason.init(rawValue:)) {
      return problem(of: CallRefusal(reason, error.message))
    }
    return problem(of: error)
  }

  private static func problem(of error: FileError) -> OperationProblem {
    guard error.code != .aborted else {
      return OperationProblem(.cancelled, error.message, reason: "abort")
    }
    var file: JSONObject = ["code": .string(error.code.rawValue)]
    if let path = error.path { file["path"] = .string(path) }
    if let reason = error.reason { file["reason"] = .string(reason.rawValue) }
    var problem = OperationProblem(.invalid, error.description, reason: "file")
    problem.members["file"] = .object(file)
    return problem
  }

  private static func problem(of error: ExecutionError) -> OperationProblem {
    guard error.code != .aborted else {
      return OperationProblem(.cancelled, error.message, reason: "abort")
    }
    var execution: JSONObject = ["code": .string(error.code.rawValue)]
    if let path = error.spillPath { execution["spillPath"] = .string(path) }
    if let confinement = error.confinement { execution["confinement"] = confinement.json }
    var problem = OperationProblem(.invalid, error.description, reason: "execution")
    problem.members["execution"] = .object(execution)
    return problem
  }

  private static func problem(of error: PerdureError) -> OperationProblem {
    func problem(_ reason: CallRefusal.Reason) -> OperationProblem {
      self.problem(of: CallRefusal(reason, error.message))
    }
    return switch error.code {
    case .invocationEnded: problem(.ended)
    case .closed: problem(.closing)
    case .cancelled: OperationProblem(.cancelled, error.message, reason: "abort")
    case .notFound, .conversationDeleted, .conversationArchived: problem(.notFound)
    case .conversationBusy: problem(.conversationBusy)
    case .requestIdConflict: problem(.keyConflict)
    case .invalidInput, .documentMismatch, .invalidRequest, .invalidBatch: problem(.shape)
    case .readAfterWrite: problem(.readAfterWrite)
    default: OperationProblem(.internal, error.message, reason: error.code.rawValue)
    }
  }

  private static func problem(of refusal: CallRefusal) -> OperationProblem {
    let code: BorderCode =
      switch refusal.reason {
      case .ended, .aborting, .closing, .conflict: .stale
      case .transactionExpired: .timeout
      case .conversationBusy, .limit, .runActive: .busy
      case .permission: .denied
      case .notFound, .readAfterWrite, .unresolvablePath, .waitCycle, .owner, .keyConflict,
        .invalidArguments, .initialFailed, .migrationFailed, .shape, .notHere:
        .invalid
      }
    var problem = OperationProblem(code, refusal.message, reason: refusal.reason.rawValue)
    problem.pointer = refusal.step.map { "/steps/\($0)" }
    problem.isRetryable = refusal.reason == .conflict || code == .busy
    return problem
  }
}
