internal import CPerdureABI
internal import CPerdureLinux
import Glibc

/// A string that is never freed, for the breadcrumbs of crash handlers.
// Safe and @unchecked Sendable: written once before it is shared.
@safe struct ImmortalName: @unchecked Sendable {
  let pointer: UnsafePointer<CChar>
  let length: Int

  /// The string as such.
  var text: String { unsafe String(cString: pointer) }

  init(_ text: String) {
    let bytes = Array(text.utf8) + [0]
    length = bytes.count - 1
    let memory = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
    for (index, byte) in bytes.enumerated() { unsafe memory[index] = CChar(bitPattern: byte) }
    unsafe pointer = UnsafePointer(memory)
  }
}

/// Runs `body`, which calls code of `plugin`, with a breadcrumb on this thread.
@inline(__always) func withBreadcrumb<Result>(
  _ plugin: ImmortalName,
  _ target: ImmortalName,
  _ call: UInt64,
  _ body: () -> Result
) -> Result {
  unsafe perdure_breadcrumb_enter(plugin.pointer, target.pointer, call)
  defer { perdure_breadcrumb_leave() }
  return body()
}

/// The functions of a plugin that is mapped into this process. Every call of its code but callbacks goes through here.
// Safe and @unchecked Sendable: what is called is the contract's; the file stays mapped for ever.
@safe struct MappedCode: @unchecked Sendable {
  private let plugin: pdr_plugin
  private let name: ImmortalName

  private static let entryName = Immortals.name("entry")
  private static let activateName = Immortals.name("activate")
  private static let deactivateName = Immortals.name("deactivate")
  private static let destroyName = Immortals.name("destroy")

  /// Whether the plugin has something to stop.
  var hasDeactivate: Bool { unsafe plugin.deactivate != nil }

  /// Calls the entry function; what it refuses with is thrown.
  static func enter(
    _ library: LoadedLibrary,
    _ name: ImmortalName,
    _ tables: HostTables
  ) throws(PluginRefusal) -> MappedCode {
    typealias Entry =
      @convention(c) (
        UnsafePointer<pdr_host>?, UnsafeMutablePointer<pdr_plugin>?,
        UnsafeMutablePointer<pdr_errbuf>?
      ) -> Int32
    guard let symbol = unsafe dlsym(library.handle, PDR_ENTRY_SYMBOL) else {
      throw PluginRefusal(code: 0, message: "it does not export \(PDR_ENTRY_SYMBOL)")
    }
    let entry = unsafe unsafeBitCast(symbol, to: Entry.self)
    var plugin = unsafe pdr_plugin()
    unsafe plugin.size = UInt32(MemoryLayout<pdr_plugin>.size)
    let (code, message) = unsafe withErrorBuffer { buffer in
      withBreadcrumb(name, entryName, 0) {
        unsafe entry(UnsafePointer(tables.context.pointee.host), &plugin, buffer)
      }
    }
    guard code == 0 else { throw PluginRefusal(code: code, message: message) }
    guard unsafe plugin.flags & PDR_MUST_UNDERSTAND == 0 else {
      throw PluginRefusal(code: code, message: "it sets flags that this version does not know")
    }
    guard unsafe plugin.start != nil else {
      throw PluginRefusal(code: code, message: "it has no start function")
    }
    return unsafe MappedCode(plugin: plugin, name: name)
  }

  private init(plugin: pdr_plugin, name: ImmortalName) {
    unsafe self.plugin = plugin
    self.name = name
  }

  /// Activates the plugin; what it refuses with is thrown.
  func activate() throws(PluginRefusal) {
    guard let activate = unsafe plugin.activate else { return }
    let (code, message) = unsafe Self.withErrorBuffer { buffer in
      withBreadcrumb(name, Self.activateName, 0) { unsafe activate(plugin.state, buffer) }
    }
    guard code == 0 else { throw PluginRefusal(code: code, message: message) }
  }

  /// Begins a call; `input` is lent until this returns.
  @inline(__always) func start(
    _ id: UInt64,
    target: ImmortalName,
    input: borrowing [UInt8],
    deadline: UInt64
  ) -> Int32 {
    guard let start = unsafe plugin.start else { return PDR_E_UNSUPPORTED }
    return unsafe input.withUnsafeBufferPointer { bytes in
      var blob = unsafe pdr_blob()
      unsafe blob.size = UInt32(MemoryLayout<pdr_blob>.size)
      unsafe blob.ptr = bytes.baseAddress
      unsafe blob.len = bytes.count
      return unsafe withUnsafePointer(to: &blob) { blob in
        var call = unsafe pdr_call()
        unsafe call.size = UInt32(MemoryLayout<pdr_call>.size)
        unsafe call.id = id
        unsafe call.target = pdr_str(
          ptr: UnsafeRawPointer(target.pointer).assumingMemoryBound(to: UInt8.self),
          len: target.length
        )
        unsafe call.input = blob
        unsafe call.deadline_ns = deadline
        return withBreadcrumb(name, target, id) { unsafe start(plugin.state, &call) }
      }
    }
  }

  /// Asks the plugin to stop; a plugin without the function has nothing to stop.
  func deactivate(ticket: UInt64, deadline: UInt64) -> Int32 {
    guard let deactivate = unsafe plugin.deactivate else { return 0 }
    return withBreadcrumb(name, Self.deactivateName, 0) {
      unsafe deactivate(plugin.state, ticket, deadline)
    }
  }

  /// Ends the plugin.
  func destroy() {
    guard let destroy = unsafe plugin.destroy else { return }
    withBreadcrumb(name, Self.destroyName, 0) { unsafe destroy(plugin.state) }
  }

  /// Lends a place for the text of an error; returns the code and the text.
  private static func withErrorBuffer(
    _ body: (UnsafeMutablePointer<pdr_errbuf>) -> Int32
  ) -> (Int32, String) {
    unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1_024) { memory in
      unsafe memory.initialize(repeating: 0)
      var buffer = unsafe pdr_errbuf()
      unsafe buffer.size = UInt32(MemoryLayout<pdr_errbuf>.size)
      unsafe buffer.buf = memory.baseAddress
      unsafe buffer.cap = memory.count
      let code = unsafe body(&buffer)
      let count = unsafe min(max(0, buffer.len), memory.count)
      // For people only, so whatever is no UTF-8 is shown as such.
      return (code, unsafe String(decoding: memory.prefix(count), as: UTF8.self))
    }
  }
}

/// Why the plugin itself refused to be loaded.
struct PluginRefusal: Error, Sendable {
  var code: Int32
  var message: String
  /// Where it did: `load`, `entry` or `activate`, if a runner tells.
  var step: String?
}

/// A shared library that was mapped and stays mapped.
// Safe and @unchecked Sendable: the handle is only given to dlsym.
@safe struct LoadedLibrary: @unchecked Sendable {
  let handle: UnsafeMutableRawPointer

  /// Maps the file at `path`; the loader's own words are thrown.
  init(path: String) throws(PluginRefusal) {
    guard let handle = unsafe dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) else {
      let text = unsafe dlerror().map { unsafe String(cString: $0) } ?? "no reason given"
      // The path is that of a private copy, which says nothing to anybody.
      let front = "\(path): "
      let message = text.hasPrefix(front) ? String(text.dropFirst(front.count)) : text
      throw PluginRefusal(code: 0, message: message)
    }
    unsafe self.handle = handle
  }
}

/// What a thread was doing when it crashed, for crash handlers.
package enum Breadcrumb {
  /// Gives the plugin, the target and the call that this thread is in, or `nil` outside plugins.
  ///
  /// Not for signal handlers, which call `perdure_breadcrumb_current` instead.
  package static var current: (plugin: String, target: String, call: UInt64)? {
    var crumb = unsafe perdure_breadcrumb()
    guard unsafe perdure_breadcrumb_current(&crumb) != 0, let plugin = unsafe crumb.plugin,
      let target = unsafe crumb.target
    else { return nil }
    return unsafe (String(cString: plugin), String(cString: target), crumb.call)
  }
}
