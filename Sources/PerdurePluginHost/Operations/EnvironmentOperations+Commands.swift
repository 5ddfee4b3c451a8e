import PerdureModel
import PerdureValue

/// Watches and commands of plugins.
extension OperationRun {
  func watchFiles(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    let targets = try (input["targets"]?.array ?? []).enumerated().map { index, json in
      guard let path = json["path"]?.text else {
        throw wrong("a target without a path", "/targets/\(index)/path")
      }
      return WatchTarget(
        path,
        recursive: json["recursive"] == true,
        exclude: WatchTarget.Exclusions(
          hidden: json["exclude"]?["hidden"] == true,
          names: Set((json["exclude"]?["names"]?.array ?? []).compactMap { $0.text })
        )
      )
    }
    let stream = BufferedStream(pauses: true)
    let watch = try await env.watch(targets) { change in
      switch change {
      case .paths(let paths): stream.offer(["paths": .array(paths.map { .string($0) })])
      case .overflow: stream.offer(["overflow": true])
      case .failed(let error): stream.finish(["error": Self.failure(of: error).json])
      }
    }
    guard let handle = call?.streams.open(stream) else {
      await watch.close()
      throw CallRefusal(.limit, "the call has too many streams")
    }
    stream.onClose { Task { await watch.close() } }
    return ["stream": .string(JSONString(handle))]
  }

  func execute(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.exec, input)
    let command: EnvironmentCommand =
      if let words = input["command"]?.array {
        .arguments(words.compactMap { $0.text })
      } else {
        .shell(input.text("command"))
      }
    let options = try executionOptions(input)
    let host = input.flag("pipe") == true ? call?.place.tool?.host : nil
    guard input.flag("pipe") != true || host != nil else {
      throw OperationProblem(
        .invalid,
        "env.exec has no output of a tool to put its own into",
        reason: "not_here",
        at: "/pipe"
      )
    }
    return try stream(pauses: true) { stream in
      let result = try await env.execute(command, options) { chunk in
        if let host {
          try host.output(JSONString(chunk.text), skipped: chunk.skipped)
        } else if await !stream.send(Self.json(chunk)) {
          throw CancellationError()
        }
      }
      var end: JSONObject = ["exitCode": .int(Int64(result.exitCode))]
      if let path = result.spillPath {
        end["spillPath"] = .string(path)
        end["spillTruncated"] = .bool(result.spillTruncated)
      }
      end["confinement"] = result.confinement?.json
      return .object(end)
    }
  }

  private static func json(_ chunk: OutputChunk) -> JSON {
    var object: JSONObject = [
      "stream": .string(chunk.stream.rawValue), "text": .string(chunk.text),
    ]
    if let skipped = chunk.skipped {
      object["skipped"] = [
        "bytes": .int(Int64(skipped.bytes)), "newlines": .int(Int64(skipped.newlines)),
        "endsWithNewline": .bool(skipped.endsWithNewline),
      ]
    }
    return .object(object)
  }

  private func executionOptions(_ input: Arguments) throws -> ExecutionOptions {
    var options = ExecutionOptions(cwd: input["cwd"]?.text)
    for (name, value) in input["env"]?.object ?? [:] {
      guard let text = value.text else {
        throw wrong("a variable that is no string", "/env/\(name.string)")
      }
      options.variables[name.string] = text
    }
    options.inheritsVariables = input.flag("inheritEnv") ?? true
    options.timeout = input["timeoutMs"]?.double.map { $0 / 1_000 }
    func number(_ member: String, _ name: JSONString) throws -> Int {
      guard let value = input[member]?[name]?.int, value >= 0 else {
        throw wrong("no number", "/\(member)/\(name.string)")
      }
      // Nobody means more, and what is calculated with it must not overflow.
      return Int(min(value, Int64(Int32.max)))
    }
    if input["spill"] != nil {
      options.spill = ExecutionOptions.Spill(
        afterBytes: try number("spill", "afterBytes"),
        afterLines: try number("spill", "afterLines")
      )
    }
    if input["window"] != nil {
      options.window = OutputWindowHint(
        maxBytes: try number("window", "maxBytes"),
        maxLines: try number("window", "maxLines"),
        minIntervalMs: try number("window", "minIntervalMs"),
        bytesPerSecond: try number("window", "bytesPerSecond")
      )
    }
    return options
  }
}
