internal import CPerdureABI
import PerdureModel
import PerdureValue

/// Measures the border alone: a call, the id table, the completion and the copies, without JSON.
package struct BorderBench: Sendable {
  private let core: PluginCore
  private let code: MappedCode?
  private let target: ImmortalName

  /// Takes a plugin that is loaded in this process, with a tool that completes inside `start`.
  package init(plugin: LoadedPlugin, tool: String) {
    core = plugin.core
    code = if case .mapped(let code) = plugin.code { code } else { nil }
    target = Immortals.name("tool:\(tool)")
  }

  /// Makes `rounds` calls with `input` on this thread; returns the bytes that came back in all.
  ///
  /// Throws if a call is not answered inside `start`.
  package func run(rounds: Int, input: [UInt8]) throws -> Int {
    guard let code else {
      throw PerdureError(.invalidInput, "plugin \(core.id) does not run in this process")
    }
    let call = PluginCall(kind: .bytes, label: "benchmark", plugin: core.id, host: nil)
    var received = 0
    for _ in 0..<rounds {
      guard let id = core.calls.open(call) else { break }
      let status = code.start(id, target: target, input: input, deadline: 0)
      guard status == 0, case .bytes(let bytes)? = call.takeOutcome() else {
        throw PerdureError(
          .pluginFault,
          "plugin \(core.id) did not answer the benchmark inside start"
        )
      }
      received += bytes.count
    }
    return received
  }
}
