import PerdureModel
import PerdurePluginKit
import Synchronization

/// A file that the host has open for the call.
struct PluginFile: FileReader {
  let env: PluginEnvironment
  let path: String
  /// What stands for the path in operations.
  let handle: String

  /// Less than one answer of the host holds.
  private static let piece = 8 << 20

  func info() async throws(FileError) -> FileInfo {
    guard let info = try await ask("env.stat")["info"] else {
      throw FileError(.notFound, "\(path.quotedForMessage) does not exist", path: path)
    }
    return FileInfo(border: info)
  }

  func read(offset: Int64, length: Int) async throws(FileError) -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < length {
      let input: JSON = [
        "path": .string(handle), "offset": .int(offset + Int64(bytes.count)),
        "length": .int(Int64(min(length - bytes.count, Self.piece))),
      ]
      let part: [UInt8]
      do { part = try await env.call.request("env.read", Payload(input)).bytes } catch {
        throw FileError(border: error, path)
      }
      if part.isEmpty { break }
      bytes += part
    }
    return bytes
  }

  func scanLines(from start: Int, to end: Int?) async throws(FileError) -> LineScan {
    var input: JSONObject = ["startLine": .int(Int64(start))]
    input["endLine"] = end.map { .int(Int64($0)) }
    let scan = try await ask("env.lines", input)
    func number(_ name: JSONString) -> Int64 { scan[name]?.int ?? 0 }
    return LineScan(
      newlines: Int(clamping: number("newlines")),
      start: number("start"),
      end: number("end"),
      firstLineEnd: number("firstLineEnd"),
      lastLineStart: number("lastLineStart"),
      selectedBytes: number("selectedBytes"),
      firstLineBytes: number("firstLineBytes")
    )
  }

  func close() async { _ = try? await env.call.invoke("env.close", ["file": .string(handle)]) }

  private func ask(_ operation: String, _ input: JSONObject = [:]) async throws(FileError) -> JSON {
    var input = input
    input["path"] = .string(handle)
    return try await env.ask(operation, path, input)
  }
}

/// The entries of a folder that the host reads for the call.
final class PluginFolder: FolderReader {
  private let stream: Mutex<HostStream?>
  private let path: String

  init(_ stream: HostStream, _ path: String) {
    self.stream = Mutex(stream)
    self.path = path
  }

  func next(_ maxEntries: Int) async throws(FileError) -> FolderPage {
    guard let stream = stream.withLock({ $0 }), maxEntries > 0 else {
      throw FileError(.invalid, "\(path.quotedForMessage) cannot be read any more", path: path)
    }
    var page = FolderPage(entries: [], isLast: false)
    do {
      var entries = stream.makeAsyncIterator()
      while page.entries.count < maxEntries {
        guard let entry = try await entries.next() else {
          page.isLast = true
          break
        }
        page.entries.append(FileInfo(border: entry))
      }
    } catch {
      throw FileError(border: error, path)
    }
    return page
  }

  func close() async { stream.withLock { $0 = nil } }
}

extension FileInfo {
  /// Reads what the host says of a file.
  init(border json: JSON) {
    self.init(
      name: json["name"]?.text ?? "",
      path: json["path"]?.text ?? "",
      kind: json["kind"]?.text.flatMap(Kind.init(rawValue:)) ?? .file,
      size: json["size"]?.int ?? 0,
      mtimeMs: json["mtimeMs"]?.int ?? 0,
      version: json["version"]?.text.map { FileVersion($0) },
      target: json["target"]?.text
    )
  }
}

extension OutputChunk {
  /// Reads a piece of output as the host sends it.
  init(border json: JSON) {
    self.init(
      json["stream"]?.text.flatMap(Stream.init(rawValue:)) ?? .stdout,
      json["text"]?.text ?? "",
      skipped: json["skipped"].map { skipped in
        SkippedOutput(
          bytes: Int(clamping: skipped["bytes"]?.int ?? 0),
          newlines: Int(clamping: skipped["newlines"]?.int ?? 0),
          endsWithNewline: skipped["endsWithNewline"]?.bool ?? false
        )
      }
    )
  }
}

extension Confinement {
  /// Reads what the host says of an environment.
  init(border json: JSON) {
    var facts = json.object ?? [:]
    for name in ["tier", "files", "commands"] as [JSONString] { facts[name] = nil }
    self.init(
      tier: json["tier"]?.text ?? "",
      files: json["files"]?.text ?? "",
      commands: json["commands"]?.text,
      facts: facts
    )
  }
}

// What the host says of a failure is whole: the hint stands in its message.

extension FileError {
  /// What the host answered with, as the tools know it.
  init(border error: any Error, _ path: String) {
    guard let error = error as? PluginError, error.code != .cancelled else {
      self = .aborted(path)
      return
    }
    let file = error.detail?["file"]
    self.init(
      file?["code"]?.text.flatMap(Code.init(rawValue:)) ?? .unknown,
      error.message,
      path: file?["path"]?.text ?? path,
      reason: file?["reason"]?.text.flatMap(Reason.init(rawValue:))
    )
  }
}

extension ExecutionError {
  /// What the host answered with, as the tools know it.
  init(border error: any Error) {
    guard let error = error as? PluginError else {
      self.init(error is CancellationError ? .aborted : .callbackError, "\(error)")
      return
    }
    guard error.code != .cancelled else {
      self.init(.aborted, error.message)
      return
    }
    let execution = error.detail?["execution"]
    self.init(
      execution?["code"]?.text.flatMap(Code.init(rawValue:)) ?? .unknown,
      error.message,
      spillPath: execution?["spillPath"]?.text,
      confinement: execution?["confinement"].map { Confinement(border: $0) }
    )
  }
}
