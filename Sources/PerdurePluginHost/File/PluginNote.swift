/// The note of a plugin: which host it needs, readable before anything else of it.
package struct PluginNote: Sendable, Equatable {
  package var abiMajor: Int
  package var hostMinor: Int
  package var messageLevel: Int
  package var runtime: String

  static let section = ".note.perdure"
  static let owner = "Perdure"
  static let type: UInt32 = 1

  /// Makes the note of a plugin that has no file of its own.
  init(_ manifest: Manifest) {
    abiMajor = manifest.abi.major
    hostMinor = manifest.abi.minor
    messageLevel = manifest.abi.messages
    runtime = manifest.runtime
  }

  /// Reads the descriptor; `nil` if it is none.
  init?(descriptor bytes: [UInt8]) {
    guard let size = ELFFile.u32(bytes, 0), size >= 52, bytes.count >= 52,
      let major = ELFFile.u32(bytes, 4), let minor = ELFFile.u32(bytes, 8),
      let level = ELFFile.u32(bytes, 12), let flags = ELFFile.u32(bytes, 16),
      flags & 0xFFFF_0000 == 0
    else { return nil }
    let name = bytes[20..<52].prefix { $0 != 0 }
    guard name.count < 32, let runtime = String(validating: name, as: UTF8.self) else { return nil }
    abiMajor = Int(major)
    hostMinor = Int(minor)
    messageLevel = Int(level)
    self.runtime = runtime
  }
}
