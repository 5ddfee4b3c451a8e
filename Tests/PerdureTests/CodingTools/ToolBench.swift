import Foundation
import Perdure
import Synchronization

/// A folder with the coding tools, which are called as the engine would.
struct ToolBench: Sendable {
  let folder: String
  let env: any Environment
  private let options: CodingToolOptions

  init(
    shell: Bool = false,
    variables: [String: String]? = nil,
    _ options: CodingToolOptions = CodingToolOptions()
  ) throws {
    let url = FileManager.default.temporaryDirectory.appending(path: "tools-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    folder = url.resolvingSymlinksInPath().path
    env =
      shell
      ? try Environments.local(cwd: folder, variables: variables)
      : try Environments.directory(at: folder)
    self.options = options
  }

  /// One whose commands run in an environment of the caller's own, also in the background.
  init(_ env: any Environment, folder: String) {
    self.folder = folder
    self.env = env
    options = CodingToolOptions()
  }

  func remove() { try? FileManager.default.removeItem(atPath: folder) }

  func write(_ path: String, _ text: String) async throws {
    try await env.writeFile(path, text)
  }

  func text(_ path: String) async throws -> String { try await env.readTextFile(path) }

  /// What a call came to.
  struct Answer: Sendable {
    var result: ToolResult
    var host: BenchHost

    var text: String { result.output?.first?["text"]?.text ?? "" }
    var remarks: [String] { result.diagnostics.map { $0.message } }
    var codes: [String?] { result.diagnostics.map { $0.code } }
  }

  /// Calls a tool with arguments that are prepared and checked as ever.
  @discardableResult func call(_ name: String, _ arguments: JSON) async throws -> Answer {
    let tools = Extension.codingTools(shell: true, sessions: env.hasSessions, options).tools
    guard let tool = tools.first(where: { $0.name == name }) else {
      throw PerdureError(.notFound, "there is no tool \(name)")
    }
    let host = BenchHost()
    guard let task = TaskID(1) else { throw PerdureError(.notFound, "there is no task") }
    var call = ToolCall(
      callId: "call",
      conversationId: .root,
      taskId: task,
      arguments: try tool.prepareArguments?(arguments) ?? arguments,
      replay: tool.replay,
      recovered: false,
      outputWindow: nil,
      deadline: .max,
      host: host
    )
    call.env = env
    return Answer(result: try await tool.execute(call), host: host)
  }

  /// The error of a call.
  func failure(_ name: String, _ arguments: JSON) async -> String {
    do {
      let answer = try await call(name, arguments)
      return "no error, but: \(answer.text)"
    } catch {
      return "\(error)"
    }
  }
}

/// Keeps what a tool reports.
final class BenchHost: ToolCallHost {
  private let collected = Mutex("")
  private let reported = Mutex<[ToolDiagnostic]>([])

  var cancelReason: CancelReason? { nil }
  var diagnostics: [ToolDiagnostic] { reported.withLock { $0 } }
  func output(_ text: JSONString, skipped: SkippedOutput?) throws {
    collected.withLock { $0 += text.string }
  }
  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {}
  func diagnostic(_ diagnostic: ToolDiagnostic) throws {
    reported.withLock { $0.append(diagnostic) }
  }
  func details(_ value: JSON?) throws {}
  func flushOutput() async throws {}
  func retainedOutput() throws -> (text: String, truncated: Bool) {
    (collected.withLock { $0 }, false)
  }
  func barrier() async throws {}
  func settings() throws -> JSON { [:] }
  func clock() -> (now: Int64, monotonic: Int64) { (0, 0) }
  func sleep(milliseconds: Int64) async throws {}
  func report(_ message: String) {}
}
