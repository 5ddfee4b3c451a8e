package import PerdureModel
import PerdureValue
import Synchronization

/// An extension whose names and schemas have been checked.
package struct InstalledExtension: Sendable {
  package var name: String
  package var version: String
  package var tools: [InstalledTool]
  package var sections: [PromptSection] = []
  package var hooks: [Hook] = []
  package var wraps: [Wrap] = []
  /// The tools that may take the place of those of extensions before it; absent: all of them.
  var replacing: Set<String>?
  /// Whether no conversation can do without it.
  package var isPinned = false
  /// The code of its task types.
  package var tasks: [TaskDefinition] = []
  /// Differs for each installation.
  let identity = DefinitionIdentity()
  /// The kinds of documents that it keeps and that say so.
  package var documents: [DocumentDeclaration] = []
  /// Keeps the code.
  var lease: ExtensionLease?

  // Strings of Swift are equal when they look alike; names are equal when their bytes are.
  func has(_ name: String) -> Bool { self.name.utf8.elementsEqual(name.utf8) }
}

/// The extensions that are installed now.
package final class Registry: Sendable {
  private let state = Mutex<[InstalledExtension]>([])
  private let followers = Mutex<[@Sendable () -> Void]>([])
  private let toldNames = Mutex<Set<String>>([])
  private let pinned: [String]

  /// Makes an empty registry; the extensions named here count in every conversation, first of all.
  package init(pinned: [String] = []) { self.pinned = pinned }

  /// Throws `invalidConfiguration` unless all pinned extensions are installed.
  package func requirePinned() throws {
    let installed = snapshot
    for name in pinned where !installed.contains(where: { $0.has(name) }) {
      throw PerdureError(
        .invalidConfiguration,
        "the pinned extension '\(name)' is not installed",
        hint: "install it, or do not pin it"
      )
    }
  }

  /// Whether this has not been said before; true once for each text.
  func tellsFirst(_ text: String) -> Bool {
    toldNames.withLock { told in
      // Names come from conversations, of which there may be many.
      if told.count >= 1_024 { told = [] }
      return told.insert(text).inserted
    }
  }

  /// The installed extensions in order; a value that later changes do not touch.
  package var snapshot: [InstalledExtension] { state.withLock { $0 } }

  /// Whether any extension has hooks.
  var hasHooks: Bool { state.withLock { $0.contains { !$0.hooks.isEmpty } } }

  /// Whether any extension has hooks at this point.
  func hasHooks(_ point: Hook.Point) -> Bool {
    state.withLock { $0.contains { $0.hooks.contains { $0.point == point } } }
  }

  /// Adds an extension, or replaces the one of the same name in its place.
  ///
  /// Throws `invalidConfiguration` and changes nothing if a name is not allowed or is used twice, or
  /// if the wishes for orders lead in a circle.
  ///
  /// It counts in every conversation if it is pinned here or was from the beginning.
  package func install(_ value: Extension, isPinned: Bool = false) throws {
    var checked = try Self.check(value)
    checked.lease = value.lease
    checked.isPinned = isPinned || pinned.contains { checked.has($0) }
    try state.withLock { installed in
      for other in installed where !other.has(value.name) {
        try Self.check(checked.tasks, against: other)
      }
      var changed = installed
      if let position = changed.firstIndex(where: { $0.has(value.name) }) {
        changed[position] = checked
      } else {
        changed.append(checked)
      }
      try InstalledExtension.checkClashes(changed)
      try InstalledExtension.checkOrders(changed)
      installed = changed
    }
    publish()
  }

  /// Removes the extension of this name; an unknown name is no error.
  ///
  /// A pinned extension stays; returns whether none of this name is left.
  @discardableResult
  package func uninstall(_ name: String) -> Bool {
    let isGone = state.withLock { installed in
      installed.removeAll { $0.has(name) && !$0.isPinned }
      return !installed.contains { $0.has(name) }
    }
    publish()
    return isGone
  }

  /// Calls `follower` after every change, in the task that made it.
  func subscribe(_ follower: @escaping @Sendable () -> Void) {
    followers.withLock { $0.append(follower) }
  }

  private func publish() {
    for follower in followers.withLock({ $0 }) { follower() }
  }

  /// The code for tasks of a kind, and the extension that brought it.
  ///
  /// It counts for every conversation, whatever a conversation selects.
  func task(_ kind: JSONString) -> (definition: TaskDefinition, extensionName: String)? {
    state.withLock { installed in
      for value in installed {
        if let definition = value.tasks.first(where: { $0.name == kind }) {
          return (definition, value.name)
        }
      }
      return nil
    }
  }

  private static func check(_ value: Extension) throws -> InstalledExtension {
    func refuse(_ message: String, _ hint: String) -> PerdureError {
      PerdureError(.invalidConfiguration, "extension \(value.name): \(message)", hint: hint)
    }
    guard !value.name.isEmpty else { throw refuse("it has no name", "give it one") }
    var names: Set<String> = []
    var tools: [InstalledTool] = []
    for tool in value.tools {
      guard ToolName.isValid(tool.name) else {
        throw refuse(
          "tool name '\(tool.name)' is not allowed",
          "use 1 to 64 letters, digits, '_' or '-', starting with a letter"
        )
      }
      guard names.insert(tool.name).inserted else {
        throw refuse("it has two tools named '\(tool.name)'", "rename one of them")
      }
      do {
        tools.append(try InstalledTool(tool, by: value.name))
      } catch {
        throw refuse("\(error.message)", "correct the schema")
      }
    }
    try checkSections(of: value, refuse)
    return InstalledExtension(
      name: value.name,
      version: value.version,
      tools: tools,
      sections: value.sections,
      hooks: value.hooks,
      wraps: value.wraps,
      replacing: value.replacing,
      tasks: try tasks(of: value),
      documents: value.documents
    )
  }

  private static let reservedPrefixes = ["pi.", "perdure."]

  private static func tasks(of value: Extension) throws -> [TaskDefinition] {
    func refuse(_ message: String, _ hint: String) -> PerdureError {
      PerdureError(.invalidConfiguration, "extension \(value.name): \(message)", hint: hint)
    }
    var names: Set<JSONString> = []
    return try value.tasks.map { task in
      let external = (task as? ExternalTask).map { TaskDefinition($0) }
      guard let definition = external ?? (task as? any DefinedTask)?.definition else {
        throw refuse("task type '\(task.name)' is none that can be run here", "use a TaskType")
      }
      let name = definition.name.string
      guard !name.isEmpty, !reservedPrefixes.contains(where: { name.hasPrefix($0) }) else {
        throw refuse("task type '\(name)' has a reserved name", "names with 'pi.' are built in")
      }
      guard names.insert(definition.name).inserted else {
        throw refuse("it has two task types named '\(name)'", "rename one of them")
      }
      guard definition.version >= 1, !definition.phases.isEmpty else {
        throw refuse(
          "task type '\(name)' has no phase or a version below 1",
          "versions begin with 1"
        )
      }
      return definition
    }
  }

  private static func check(_ tasks: [TaskDefinition], against other: InstalledExtension) throws {
    for task in tasks where other.tasks.contains(where: { $0.name == task.name }) {
      throw PerdureError(
        .invalidConfiguration,
        "the task type '\(task.name.string)' is installed by the extension \(other.name)",
        hint: "rename one of them, or uninstall the other extension first"
      )
    }
  }

  private static func checkSections(
    of value: Extension,
    _ refuse: (String, String) -> PerdureError
  ) throws {
    var keys: Set<String> = []
    for section in value.sections {
      guard SectionKey.isValid(section.key) else {
        throw refuse(
          "section key '\(section.key)' is not allowed",
          "use lower-case letters, digits, '_' or '-', starting with a letter; "
            + "'instructions' is taken"
        )
      }
      guard keys.insert(section.key).inserted else {
        throw refuse("it has two sections with the key '\(section.key)'", "rename one of them")
      }
    }
  }
}

/// The form of a section's key, which is a tag in the prompt.
enum SectionKey {
  static func isValid(_ key: String) -> Bool {
    guard let first = key.utf8.first, isLetter(first), key != "instructions" else { return false }
    return key.utf8.allSatisfy { byte in
      isLetter(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
    }
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
  }
}

/// The form of a tool's name that every provider accepts.
enum ToolName {
  static func isValid(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    guard (1...64).contains(bytes.count), let first = bytes.first, isLetter(first) else {
      return false
    }
    return bytes.allSatisfy { byte in
      isLetter(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
    }
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
  }
}
