package import PerdureModel
import PerdureValue
import Synchronization

/// An extension whose names and schemas have been checked.
package struct InstalledExtension: Sendable {
  package var name: String
  package var version: String
  package var tools: [InstalledTool]

  // Strings of Swift are equal when they look alike; names are equal when their bytes are.
  func has(_ name: String) -> Bool { self.name.utf8.elementsEqual(name.utf8) }
}

/// The extensions that are installed now.
package final class Registry: Sendable {
  private let state = Mutex<[InstalledExtension]>([])

  package init() {}

  /// The installed extensions in order; a value that later changes do not touch.
  package var snapshot: [InstalledExtension] { state.withLock { $0 } }

  /// Adds an extension, or replaces the one of the same name in its place.
  ///
  /// Throws `invalidConfiguration` and changes nothing if a name is not allowed or is used twice.
  package func install(_ value: Extension) throws {
    let checked = try Self.check(value)
    state.withLock { installed in
      if let position = installed.firstIndex(where: { $0.has(value.name) }) {
        installed[position] = checked
      } else {
        installed.append(checked)
      }
    }
  }

  /// Removes the extension of this name; an unknown name is no error.
  package func uninstall(_ name: String) {
    state.withLock { $0.removeAll { $0.has(name) } }
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
        let schema = try JSONSchema(compiling: tool.parameters)
        tools.append(InstalledTool(tool: tool, schema: schema, extensionName: value.name))
      } catch {
        throw refuse("the parameters of tool '\(tool.name)': \(error)", "correct the schema")
      }
    }
    return InstalledExtension(name: value.name, version: value.version, tools: tools)
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
