import PerdureValue
import Synchronization

/// The agents that were resolved last.
///
/// Each phase of a turn resolves one, and as a rule the choices and the extensions are the same.
final class AgentCache: Sendable {
  private struct Item: Sendable {
    var stored: JSON
    var extensions: [DefinitionIdentity]
    var defaults: [String]?
    var agent: Agent
  }

  // Different choices that are in use at a time; looking through more would cost as much.
  private static let capacity = 4

  private let items = Mutex<[Item]>([])

  /// Forgets everything, because other extensions are installed now.
  func clear() { items.withLock { $0 = [] } }

  /// Resolves the stored `pi.agent` as `Agent` does.
  ///
  /// What is kept holds the code of its extensions, so only those that are `current` are kept.
  func agent(
    _ stored: JSON,
    registry: [InstalledExtension],
    defaults: [String]?,
    current: Registry
  ) -> Agent {
    // Wraps are the code of extensions, which is asked each time.
    guard registry.allSatisfy({ $0.wraps.isEmpty }) else {
      return Agent(stored, registry: registry, defaults: defaults)
    }
    let found = items.withLock { items in
      items.first {
        $0.extensions.elementsEqual(registry) { $0 === $1.identity } && $0.defaults == defaults
          && $0.stored == stored
      }
    }
    if let found { return found.agent }
    let agent = Agent(stored, registry: registry, defaults: defaults)
    let item = Item(
      stored: stored,
      extensions: registry.map { $0.identity },
      defaults: defaults,
      agent: agent
    )
    items.withLock { items in
      // Looked at here, so that a change which comes later finds the item and takes it away.
      guard current.snapshot.elementsEqual(registry, by: { $0.identity === $1.identity }) else {
        return
      }
      items.insert(item, at: 0)
      if items.count > Self.capacity { items.removeLast() }
    }
    return agent
  }
}
