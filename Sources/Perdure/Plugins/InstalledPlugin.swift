import PerdurePluginHost
public import PerdureValue

/// An installed plugin, and what it does in a host that runs.
public struct InstalledPlugin: Sendable {
  /// Whether hosts load it; one that was removed from the folder runs on where it was loaded before.
  public enum State: String, Sendable { case enabled, disabled, removed }

  /// What a host has of it in memory.
  public struct Running: Sendable {
    public var version: String
    /// SHA-256 of the library that runs, in hexadecimal.
    public var digest: String
    /// Its place among all copies that the process has loaded.
    public var generation: Int
    /// The calls that are under way, such as "tool grep".
    public var calls: [String]
    /// How often it broke its promises.
    public var strikes: Int
    /// Whether it did so often lately.
    public var isDegraded: Bool
    /// Where it runs.
    public var isolation: Isolation
  }

  public var id: String
  public var version: String
  /// SHA-256 of the library, in hexadecimal.
  public var digest: String
  /// The number of its signer's key; absent if it was accepted without a signature.
  public var signer: String?
  public var state: State
  /// Whether it counts in every conversation, first of all.
  public var isPinned: Bool
  /// Whether nothing may go on without it.
  public var isRequired: Bool
  /// Where it is to run.
  public var isolation: Isolation
  /// Why nobody runs it until it is enabled, or `nil`.
  public var quarantine: String?
  /// The version that a rollback leads back to.
  public var previousVersion: String?
  /// The path of its library.
  public var path: String
  /// What takes new calls; absent if it is not loaded.
  public var running: Running?
  /// Old versions whose last calls have not ended.
  public var draining: [Running] = []
  /// How many closed copies of it stay mapped until the host is restarted.
  public var retired = 0

  init(_ record: InstalledRecord, in folder: InstallationFolder) {
    id = record.id
    version = record.release.version
    digest = record.release.digest
    signer = record.release.signer?.id
    state = record.state == .enabled ? .enabled : .disabled
    isPinned = record.isPinned
    isRequired = record.isRequired
    isolation = Isolation(rawValue: record.isolation) ?? .auto
    quarantine = record.quarantine
    previousVersion = record.previous?.version
    path = folder.library(of: record.id, record.release)
  }

  /// The same for programs.
  public var json: JSON {
    var object: JSONObject = [
      "id": .string(id), "version": .string(version), "digest": .string(digest),
      "signer": signer.map { .string($0) } ?? .null, "state": .string(state.rawValue),
      "pinned": .bool(isPinned), "required": .bool(isRequired),
      "isolation": .string(isolation.rawValue), "path": .string(path),
    ]
    object["quarantine"] = quarantine.map { .string($0) }
    object["previous"] = previousVersion.map { .string($0) }
    object["running"] = running.map { $0.json }
    if !draining.isEmpty { object["draining"] = .array(draining.map { $0.json }) }
    if retired > 0 { object["retired"] = .int(retired) }
    return .object(object)
  }
}

extension InstalledPlugin.Running {
  /// The same for programs.
  public var json: JSON {
    [
      "version": .string(version), "digest": .string(digest), "generation": .int(generation),
      "calls": .array(calls.map { .string($0) }), "strikes": .int(strikes),
      "degraded": .bool(isDegraded), "isolation": .string(isolation.rawValue),
    ]
  }
}

/// Something of an installed plugin that is not as it was installed.
public struct PluginProblem: Sendable, Equatable {
  public var id: String
  public var version: String
  /// One sentence without its end.
  public var message: String

  init(_ problem: InstallationProblem) {
    id = problem.id
    version = problem.version
    message = problem.message
  }

  /// The same for programs.
  public var json: JSON {
    ["id": .string(id), "version": .string(version), "message": .string(message)]
  }
}

/// What the closed plugins of a process still take; only a restart gives it back.
public struct RetiredPlugins: Sendable, Equatable {
  /// How many copies are mapped.
  public var copies: Int
  /// Bytes of the address space.
  public var mappedBytes: Int
  /// Bytes in memory, with pages that are only cached from files.
  public var residentBytes: Int
  /// What to do about it, if there are many.
  public var advice: String?

  /// Looks at this process.
  public static var now: RetiredPlugins {
    let memory = RetiredCopies.memory
    return RetiredPlugins(
      copies: memory.copies,
      mappedBytes: memory.mapped,
      residentBytes: memory.resident,
      advice: memory.copies > RetiredMemory.suggestedLimit
        ? "restart the host: \(memory.copies) closed plugins are still mapped" : nil
    )
  }

  /// The same for programs.
  public var json: JSON {
    var object: JSONObject = [
      "copies": .int(copies), "mappedBytes": .int(mappedBytes),
      "residentBytes": .int(residentBytes),
    ]
    object["advice"] = advice.map { .string($0) }
    return .object(object)
  }
}
