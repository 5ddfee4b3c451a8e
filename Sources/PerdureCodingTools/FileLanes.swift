import PerdureModel
import Synchronization

/// Lets changes of one file happen one after another, in the order in which they were asked for.
final class FileLanes: Sendable {
  /// All changes of this process.
  static let shared = FileLanes()

  private struct Key: Hashable {
    var environment: String
    var path: String
  }

  private let waiting = Mutex<[Key: [CheckedContinuation<Void, Never>]]>([:])

  /// Runs `body` when all earlier changes of the file are over.
  ///
  /// A caller that was cancelled keeps its place, so nobody behind it overtakes those before it; when
  /// its turn comes it throws.
  func run<Value>(
    _ env: any Environment,
    _ path: String,
    _ body: () async throws -> Value
  ) async throws -> Value {
    let key = Key(environment: env.id, path: try await Self.place(env, path))
    await enter(key)
    defer { leave(key) }
    if Task.isCancelled { throw FileError.aborted(path) }
    return try await body()
  }

  /// What is the same for all paths of a file, also of one that is to be created.
  private static func place(_ env: any Environment, _ path: String) async throws -> String {
    do {
      return try await env.canonicalPath(path)
    } catch {
      guard error.code == .notFound else { throw error }
      guard let slash = path.utf8.lastIndex(of: 0x2F), slash != path.startIndex else {
        return path
      }
      let folder = try? await env.canonicalPath(String(path[..<slash]))
      return (folder ?? String(path[..<slash])) + String(path[slash...])
    }
  }

  private func enter(_ key: Key) async {
    await withCheckedContinuation { continuation in
      let isFree = waiting.withLock { waiting in
        guard waiting[key] != nil else {
          waiting[key] = []
          return true
        }
        waiting[key]?.append(continuation)
        return false
      }
      if isFree { continuation.resume() }
    }
  }

  private func leave(_ key: Key) {
    let next = waiting.withLock { waiting -> CheckedContinuation<Void, Never>? in
      guard waiting[key]?.isEmpty == false else {
        waiting[key] = nil
        return nil
      }
      return waiting[key]?.removeFirst()
    }
    next?.resume()
  }
}
