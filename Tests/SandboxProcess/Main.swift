import CPerdureLinux
import Glibc
import Perdure
import PerdureModel
import PerdureSandbox
import PerdureValue

/// Does one thing with the coding tools in a process of its own, and says how much memory it took.
///
/// Arguments: the name of the tool, the folder that is the environment, and the arguments of the call
/// as JSON. Prints the result as JSON: `peak` in KiB, `text`, `details`, and `error`.
@main enum Main {
  static func main() async throws {
    let words = CommandLine.arguments
    if words.count > 1, SandboxVerbs.names.contains(words[1]) {
      do {
        exit(try await SandboxVerbs.run(Array(words.dropFirst())))
      } catch {
        return fail("\(error)")
      }
    }
    guard words.count == 4 else { return fail("usage: SandboxProcess TOOL FOLDER ARGUMENTS") }
    let env = try TreeEnvironment.directory(at: words[2])
    let tools = Extension.codingTools(shell: false).tools
    guard let tool = tools.first(where: { $0.name == words[1] }), let task = TaskID(1) else {
      return fail("there is no tool \(words[1])")
    }
    var call = ToolCall(
      callId: "call",
      conversationId: .root,
      taskId: task,
      arguments: try JSON(parsing: words[3]),
      replay: tool.replay,
      recovered: false,
      outputWindow: nil,
      deadline: .max,
      host: NoHost()
    )
    call.env = env
    var answer = JSONObject()
    do {
      let result = try await tool.execute(call)
      answer["text"] = result.output?.first?["text"] ?? ""
      answer["details"] = result.details ?? .null
    } catch {
      answer["error"] = .string("\(error)")
    }
    answer["peak"] = .int(Memory.peak())
    print(JSON.object(answer).compactText)
  }

  private static func fail(_ message: String) {
    print(message)
    exit(2)
  }
}

enum Memory {
  /// The most memory that this process has had, in KiB.
  static func peak() -> Int64 {
    // What getrusage tells is at least what the parent had when it started this process.
    guard let file = unsafe fopen("/proc/self/status", "r") else { return .max }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while unsafe fgets(&line, 256, file) != nil {
      let text = String(
        decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
        as: UTF8.self
      )
      if text.hasPrefix("VmHWM:") {
        return text.split(separator: " ").compactMap { Int64($0) }.first ?? .max
      }
    }
    return .max
  }
}

/// A host that keeps nothing.
private struct NoHost: ToolCallHost {
  var cancelReason: CancelReason? { nil }
  func output(_ text: JSONString, skipped: SkippedOutput?) throws {}
  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {}
  func diagnostic(_ diagnostic: ToolDiagnostic) throws {}
  func details(_ value: JSON?) throws {}
  func flushOutput() async throws {}
  func retainedOutput() throws -> (text: String, truncated: Bool) { ("", false) }
  func barrier() async throws {}
  func settings() throws -> JSON { [:] }
  func clock() -> (now: Int64, monotonic: Int64) { (0, 0) }
  func sleep(milliseconds: Int64) async throws {}
  func report(_ message: String) {}
}
