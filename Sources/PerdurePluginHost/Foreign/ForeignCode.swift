internal import PerdureModel
package import PerdureValue

/// Why a function was not called, or what it said went wrong.
package struct ForeignFailure: Error, Sendable {
  /// One sentence without its end.
  package var message: String

  /// Makes a failure.
  package init(_ message: String) { self.message = message }
}

/// The functions that a manifest describes, as the program has them that calls them.
package protocol ForeignFunctions: Sendable {
  /// Calls a function with the arguments of its tool and returns what it gave, by name.
  ///
  /// A description that does not fit the function may do anything to this process.
  func call(
    _ function: ForeignFunction,
    _ arguments: JSONObject
  ) throws(ForeignFailure) -> JSONObject
}

/// Makes the functions of libraries callable; throws why they cannot be.
package typealias ForeignLoader =
  @Sendable ([ForeignFunction]) throws(ForeignFailure) -> any ForeignFunctions

/// The code that a runner reaches, whatever it is.
protocol RunnerCode: Sendable {
  var hasDeactivate: Bool { get }
  func activate() throws(PluginRefusal)
  func start(
    _ id: UInt64,
    target: ImmortalName,
    input: borrowing [UInt8],
    deadline: UInt64
  ) -> Int32
  func deactivate(ticket: UInt64, deadline: UInt64) -> Int32
  func destroy()
}

extension MappedCode: RunnerCode {}

/// Functions of libraries as the code of a plugin: each call of a tool is a call of one of them.
struct ForeignCode: RunnerCode {
  private let core: PluginCore
  private let functions: any ForeignFunctions
  private let tools: [String: ForeignFunction]
  /// The tools whose results are for programs, too.
  private let structured: Set<String>

  /// Loads the libraries; what is wrong with them is thrown.
  init(_ core: PluginCore, _ load: ForeignLoader) throws(PluginRefusal) {
    self.core = core
    var tools: [String: ForeignFunction] = [:]
    for tool in core.manifest.tools { tools[tool.name] = tool.function }
    self.tools = tools
    structured = Set(
      core.manifest.tools.filter { $0.structuredOutputSchema != nil }.map(\.name)
    )
    do throws(ForeignFailure) { functions = try load(Array(tools.values)) } catch {
      throw PluginRefusal(code: BorderCode.invalid.rawValue, message: error.message)
    }
  }

  var hasDeactivate: Bool { false }
  func activate() throws(PluginRefusal) {}
  func deactivate(ticket: UInt64, deadline: UInt64) -> Int32 { 0 }
  func destroy() {}

  func start(
    _ id: UInt64,
    target: ImmortalName,
    input: borrowing [UInt8],
    deadline: UInt64
  ) -> Int32 {
    let name = target.text
    let tool = String(name.dropFirst(5))
    guard name.hasPrefix("tool:"), let function = tools[tool],
      let object = try? Payload.object(copy input)
    else { return BorderCode.unsupported.rawValue }
    let arguments = object["arguments"]?.object ?? [:]
    // The breadcrumb names the tool if the function takes the process down.
    let answer = withBreadcrumb(core.name, target, id) { () -> CallAnswer in
      do throws(ForeignFailure) {
        let values = try functions.call(function, arguments)
        var result = Self.result(values)
        if structured.contains(tool) { result["structuredOutput"] = .object(values) }
        return .value(Payload(type: .json, bytes: JSON.object(result).encoded))
      } catch {
        let failure = CallFailure(
          status: BorderCode.internal.rawValue,
          flags: CallFailure.userVisible,
          message: error.message
        )
        return .failure(failure)
      }
    }
    complete(id, answer)
    return 0
  }

  private func complete(_ id: UInt64, _ answer: CallAnswer) {
    guard let slot = core.calls.claim(id) else { return core.noteStaleCompletion(of: id) }
    core.calls.withRecord(slot, as: PluginCall.self) { _ = core.finish($0, answer) }
    core.calls.unpin(slot)
  }

  /// One value is its text; several are an object.
  private static func result(_ values: JSONObject) -> JSONObject {
    let value: JSON = values.count == 1 ? values.values.first ?? .null : .object(values)
    let text: JSON = value.string.map { .string($0) } ?? .string(value.compactText)
    let output: JSON = [["type": "text", "text": values.isEmpty ? "done" : text]]
    return ["output": output, "details": .object(values)]
  }
}
