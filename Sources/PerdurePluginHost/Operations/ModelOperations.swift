import PerdureModel
import PerdureValue
import Synchronization

extension OperationSchema {
  private static let request: [OperationMember] = [
    .takes("model", .object), .needs("messages", .list(.object, 1...100_000)),
    .takes("tools", .list(.object, 0...1_024)), .takes("options", .object),
  ]

  static let models: [OperationSchema] = [
    OperationSchema(
      name: "model.list",
      classes: [.tool, .task, .abort, .hook],
      members: [.takes("provider", .text)],
      body: .later { run, input in .object(try await run.listModels(input)) }
    ),
    OperationSchema(
      name: "model.get",
      classes: [.tool, .task, .abort, .hook],
      members: [.needs("provider", .text), .needs("modelId", .text)],
      body: .later { run, input in
        let model = try await run.model(.object(input.object), at: "")
        return .object(["model": OperationRun.entry(model)])
      }
    ),
    OperationSchema(
      name: "model.complete",
      classes: [.tool, .task, .hook],
      pauses: true,
      members: request,
      body: .later { run, input in
        let request = try await run.modelRequest(input)
        return .object(["message": try await run.engine().answer(request, nil)])
      }
    ),
    OperationSchema(
      name: "model.stream",
      classes: [.tool, .task, .hook],
      members: request,
      body: .later { run, input in .object(try await run.streamModel(input)) }
    ),
    OperationSchema(
      name: "model.deferred",
      classes: [.tool, .task, .abort],
      pauses: true,
      members: [.needs("model", .object), .needs("handle", .object), .takes("cancel", .bool)],
      body: .later { run, input in .object(try await run.deferred(input)) }
    ),
  ]
}

/// What plugins ask of models.
extension OperationRun {
  static func entry(_ model: ModelInfo) -> JSON {
    var entry = model.reference.json.object ?? [:]
    entry["api"] = .string(JSONString(model.api))
    entry["contextWindow"] = .int(Int64(model.contextWindow))
    entry["maxTokens"] = .int(Int64(model.maxTokens))
    return .object(entry)
  }

  private func mayUse(_ reference: ModelReference) -> Bool {
    core.grants.models.fits("\(reference.provider)/\(reference.modelId)")
  }

  func listModels(_ input: Arguments) async throws -> JSONObject {
    let engine = try engine()
    var models = engine.models.catalogue
    let own = try await engine.agent(of: nil).model.flatMap { engine.models.model($0) }
    if let own, !models.contains(own) { models.insert(own, at: 0) }
    if let provider = input["provider"]?.text {
      models.removeAll { $0.reference.provider != provider }
    }
    return ["models": .array(models.filter { mayUse($0.reference) }.map(Self.entry))]
  }

  /// The model that an input names, or that of the agent.
  func model(_ json: JSON?, at pointer: String) async throws -> ModelInfo {
    let engine = try engine()
    let reference: ModelReference?
    if let json {
      guard let named = ModelReference(json: json) else {
        throw OperationProblem(
          .invalid,
          "\(request.operation.name) was given a model without provider and modelId",
          reason: "shape",
          at: pointer
        )
      }
      reference = named
    } else {
      reference = try await engine.agent(of: nil).model
    }
    guard let reference else { throw CallRefusal(.notFound, "the conversation has no model") }
    guard mayUse(reference) else {
      let name = "\(reference.provider)/\(reference.modelId)"
      throw denied("the model \(name)", "ask for the permission models: [\"\(name)\"]")
    }
    guard let model = engine.models.model(reference) else {
      throw CallRefusal(
        .notFound,
        "there is no model \(reference.modelId) of \(reference.provider)"
      )
    }
    return model
  }

  func modelRequest(_ input: Arguments) async throws -> ModelRequest {
    let model = try await model(input["model"], at: "/model")
    guard
      case .array(var messages)? = Optional(
        try restored(input["messages"] ?? [], at: "/messages")
      )
    else { throw CallRefusal(.shape, "messages are no list") }
    for (index, message) in messages.enumerated() where message["role"]?.text == nil {
      throw OperationProblem(
        .invalid,
        "\(request.operation.name) was given a message without a role",
        reason: "shape",
        at: "/messages/\(index)"
      )
    }
    if let tools = input["tools"]?.array, !tools.isEmpty {
      messages.insert(
        ["role": "system", "sections": [:], "toolsAdded": .array(tools)],
        at: 0
      )
    }
    var options = input["options"]?.object ?? [:]
    let reasoning = options["reasoning"]?.text
    options["reasoning"] = nil
    options["deferred"] = nil
    return ModelRequest(
      model: model,
      messages: messages,
      attempt: 1,
      reasoning: reasoning == "off" ? nil : reasoning,
      streamOptions: options
    )
  }

  func streamModel(_ input: Arguments) async throws -> JSONObject {
    let request = try await modelRequest(input)
    let engine = try engine()
    guard let call else { return [:] }
    let stream = BufferedStream(pauses: true)
    guard let handle = call.streams.open(stream) else {
      throw CallRefusal(.limit, "the call has too many streams")
    }
    // Ends with the stream, which the end of the call closes.
    let work = Task {
      do {
        let message = try await engine.answer(request) {
          await stream.send(["changes": .array($0)])
        }
        stream.finish(["message": message])
      } catch {
        stream.finish(["error": Self.failure(of: error).json])
      }
    }
    stream.onClose { work.cancel() }
    return ["stream": .string(JSONString(handle))]
  }

  func deferred(_ input: Arguments) async throws -> JSONObject {
    let model = try await model(input["model"], at: "/model")
    let handle = input["handle"] ?? [:]
    if input.flag("cancel") == true {
      try await engine().cancelDeferred(handle, of: model)
      return [:]
    }
    let message = try await engine().fetchDeferred(handle, of: model)
    return message["stopReason"] == "deferred" ? [:] : ["message": message]
  }
}
