import PerdureModel
import PerdureValue

/// Makes the texts of a prompt's sections.
struct PromptRendering {
  private static let instructionsKey: JSONString = "instructions"

  let runtime: TaskRuntime
  let agent: Agent
  /// What the model has been shown, by key.
  let shown: JSONObject

  /// Returns the wanted texts by key, in the order of the prompt.
  ///
  /// A section that fails keeps what was shown of it, if anything was. Throws `PromptRefusal` if there
  /// can be no prompt without it.
  func sections() async throws -> JSONObject {
    var wanted = JSONObject()
    let environment = agent.sections.isEmpty ? nil : await environment()
    for installed in agent.sections {
      let key = JSONString(installed.section.key)
      switch try await render(installed, environment) {
      case .returned(let text?):
        wanted[key] = .string(
          installed.section.isTagged ? Self.tagged(key, JSONString(text)) : JSONString(text)
        )
      case .returned(nil): break
      case .threw(let message): wanted[key] = try keep(installed, message)
      case .late:
        wanted[key] = try keep(installed, "it was not made within \(installed.section.deadline)")
      }
    }
    if let instructions = agent.instructions {
      wanted[Self.instructionsKey] = .string(Self.tagged(Self.instructionsKey, instructions))
    }
    return wanted
  }

  private static func tagged(_ key: JSONString, _ text: JSONString) -> JSONString {
    JSONString("<\(key.string)>\n").appending(text).appending(JSONString("\n</\(key.string)>"))
  }

  /// The environment that all sections share; one that cannot be made is reported.
  private func environment() async -> (any Environment)? {
    do {
      return try await runtime.environment(of: agent.info)
    } catch {
      runtime.surroundings.report(
        Report(
          type: "host_error",
          message: "no environment for sections: \(Failure.describe(error))",
          task: runtime.taskId
        )
      )
      return nil
    }
  }

  private func render(
    _ installed: InstalledSection,
    _ environment: (any Environment)?
  ) async throws -> TimedCall<String?>.End {
    let call = ContributionCall(
      runtime,
      agent: agent.info,
      extensionName: installed.extensionName
    )
    defer { call.end() }
    var texts: [String: String] = [:]
    for (key, text) in shown { texts[key.string] = text.text }
    var input = PromptInput(
      conversationId: runtime.conversationId,
      agent: call.agent,
      shown: texts,
      read: call
    )
    input.env = environment
    let prompt = input
    let section = installed.section
    let end = await TimedCall<String?>.run(
      runtime.surroundings.clock,
      deadline: section.endsInTime ? nil : section.deadline
    ) { try await section.render(prompt) }
    // What a cancelled section says or does not say is no news.
    try runtime.checkSignal()
    return end
  }

  /// Gives what was shown of a section that failed; throws if there can be no prompt without it.
  private func keep(_ installed: InstalledSection, _ message: String) throws -> JSON? {
    let key = installed.section.key
    runtime.surroundings.report(
      Report(
        type: "extension_error",
        message: "the section '\(key)' of \(installed.extensionName) failed: \(message)",
        task: runtime.taskId,
        extensionName: installed.extensionName
      )
    )
    guard installed.section.failsClosed?() == true else { return shown[JSONString(key)] }
    throw PromptRefusal(
      reason: "the section '\(key)' of \(installed.extensionName) is required and failed: "
        + message
    )
  }
}

/// Why no prompt can be made.
struct PromptRefusal: Error {
  var reason: String
}
