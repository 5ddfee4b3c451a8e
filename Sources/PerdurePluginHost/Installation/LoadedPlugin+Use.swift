/// Who needs a loaded plugin now.
extension LoadedPlugin {
  /// The calls that are under way, such as "tool grep".
  package var liveCalls: [String] { core.liveCalls.map(\.label).sorted() }

  /// Its place among all copies that this process has loaded.
  package var generation: Int { core.generation }
}
