package import PerdureModel
import PerdureValue

/// What the faux provider answers: turns, each with one or more attempts.
///
/// The format is described in `docs/faux-script.md`.
package struct FauxScript: Sendable {
  struct Turn: Sendable {
    /// At least one; the last one also serves all later attempts.
    var attempts: [Attempt]
  }

  struct Attempt: Sendable {
    var steps: [Step]
    var ending: Ending
    var usage: Usage?
    /// Characters per event, and the pause between two events of one step.
    var chunk: Int
    var chunkDelayMs: Int64
    /// How the answer is held back, if it is.
    var deferral: Deferral?
  }

  struct Deferral: Sendable {
    /// How many times it is asked for in vain.
    var pendingFetches: Int64
    var pollAfterMs: Int64?
  }

  enum Step: Sendable {
    case text(String)
    case thinking(String)
    /// The text of the result of that call.
    case toolResult(JSONString)
    case toolCall(id: JSONString, name: JSONString, argumentsText: String, arguments: JSON?)
    case delay(milliseconds: Int64)
  }

  enum Ending: Sendable {
    case finished(StopReason)
    case failed(ProviderFailure)
    /// Nothing more arrives until somebody loses patience.
    case stall
    /// The connection breaks.
    case truncated
  }

  var turns: [Turn]
  /// What whoever tests a plugin with the script asks.
  package var prompt: String?
  /// What is answered to requests for a summary.
  var summary: Turn?
  var contextWindow = 128_000
  var maxTokens = 16_384

  /// Reads a script from the bytes of the file `name`.
  ///
  /// An error in it is thrown as `invalidInput` and names the file, the line and what was expected.
  package init(parsing bytes: [UInt8], name: String) throws(PerdureError) {
    var bytes = bytes
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
    let json: JSON
    do throws(JSONError) {
      let options = JSON.ParseOptions(maxDepth: 128, allowsDuplicateKeys: false)
      json = try JSON(parsing: bytes, options: options)
    } catch {
      throw Self.error(error.message, at: error.offset, path: nil, bytes, name)
    }
    do throws(ScriptNode.Problem) {
      var reader = FauxScriptReader()
      let top = ScriptNode(json)
      turns = try reader.turns(top)
      prompt = try top.member("prompt")?.string()
      summary = try reader.summary(top)
      if let tokens = try reader.tokens(top, "contextWindow") { contextWindow = tokens }
      if let tokens = try reader.tokens(top, "maxTokens") { maxTokens = tokens }
    } catch {
      let offset = JSONLocator.offset(of: error.path, in: bytes)
      throw Self.error(
        error.message,
        at: offset,
        path: ScriptNode.describe(error.path),
        bytes,
        name
      )
    }
  }

  private static func error(
    _ message: String,
    at offset: Int,
    path: String?,
    _ bytes: [UInt8],
    _ name: String
  ) -> PerdureError {
    let line = JSONLocator.line(of: offset, in: bytes)
    var details: JSONObject = ["file": .string(name), "line": .int(line)]
    if let path { details["path"] = .string(path) }
    return PerdureError(
      .invalidInput,
      "the faux script \(name), line \(line): \(message)",
      hint: "docs/faux-script.md describes the format",
      details: .object(details)
    )
  }
}
