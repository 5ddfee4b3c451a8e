import Synchronization

/// The files with whole outputs of commands that this process has told of, which may be read though
/// they are outside the working folder.
final class KeptOutputs: Sendable {
  static let shared = KeptOutputs()

  private struct Key: Hashable {
    var environment: String
    var path: String
  }

  private static let most = 1_000

  private let paths = Mutex<(known: Set<Key>, order: [Key])>(([], []))

  func add(_ path: String, of environment: String) {
    let key = Key(environment: environment, path: path)
    paths.withLock { paths in
      guard paths.known.insert(key).inserted else { return }
      paths.order.append(key)
      if paths.order.count > Self.most { paths.known.remove(paths.order.removeFirst()) }
    }
  }

  func contains(_ path: String, of environment: String) -> Bool {
    paths.withLock { $0.known.contains(Key(environment: environment, path: path)) }
  }
}
