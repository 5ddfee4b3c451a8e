internal import CPerdureABI
internal import Glibc
import PerdureValue

/// Fills in what the host asks for; what the entry of a plugin calls, which `sdk/swift` brings.
///
/// `main` is the function that the attribute `@main` made of the plugin; it names the plugin's type.
/// The arguments are those of `perdure_plugin_1`, then the manifest.
@c(perdure_kit_enter)
public func enterPlugin(
  _ host: UnsafeRawPointer?,
  _ out: UnsafeMutableRawPointer?,
  _ err: UnsafeMutableRawPointer?,
  _ main: @convention(c) (Int32, UnsafeMutableRawPointer?) -> Int32,
  _ manifest: UnsafeRawPointer?,
  _ manifestSize: Int
) -> Int32 {
  let err = unsafe err?.assumingMemoryBound(to: pdr_errbuf.self)
  do throws(PluginError) {
    guard let host = unsafe host?.assumingMemoryBound(to: pdr_host.self),
      let out = unsafe out?.assumingMemoryBound(to: pdr_plugin.self),
      unsafe host.pointee.size >= UInt32(MemoryLayout<pdr_host>.size),
      unsafe out.pointee.size >= UInt32(MemoryLayout<pdr_plugin>.size)
    else { throw PluginError(.unsupported, "the host is older than this plugin") }
    guard let tables = unsafe HostTables(host: host) else {
      throw PluginError(.unsupported, "the host lacks the table perdure.calls/1")
    }
    _ = main(0, nil)
    let bytes = unsafe Array(UnsafeRawBufferPointer(start: manifest, count: manifestSize))
    let core = try PluginCore(tables, manifest: Payload(mediaType: "", bytes: bytes).json())
    unsafe fill(out, core)
    return 0
  } catch { return unsafe Border.refuse(err, error) }
}

private func fill(_ out: UnsafeMutablePointer<pdr_plugin>, _ core: PluginCore) {
  // Never freed: threads of the host may use it for as long as the process lives.
  unsafe out.pointee.state = Unmanaged.passRetained(core).toOpaque()
  unsafe out.pointee.activate = { state, err in
    guard let state = unsafe state else { return PluginError.Code.invalid.rawValue }
    let core = unsafe PluginCore.at(state)
    guard let error = (awaitOnThread { await core.activate() }) else { return 0 }
    return unsafe Border.refuse(err, error)
  }
  unsafe out.pointee.start = { state, call in
    guard let state = unsafe state, let call = unsafe call else {
      return PluginError.Code.invalid.rawValue
    }
    return unsafe start(PluginCore.at(state), call)
  }
  unsafe out.pointee.deactivate = { state, ticket, _ in
    guard let state = unsafe state else { return PluginError.Code.invalid.rawValue }
    unsafe PluginCore.at(state).deactivate(ticket)
    return 0
  }
  unsafe out.pointee.destroy = { state in
    guard let state = unsafe state else { return }
    unsafe PluginCore.at(state).destroy()
  }
}

private func start(_ core: PluginCore, _ call: UnsafePointer<pdr_call>) -> Int32 {
  guard unsafe call.pointee.size >= UInt32(MemoryLayout<pdr_call>.size),
    unsafe call.pointee.flags & 0xFFFF_0000 == 0
  else { return PluginError.Code.unsupported.rawValue }
  let given = GivenCall(
    id: unsafe call.pointee.id,
    parent: unsafe call.pointee.parent,
    deadline: unsafe call.pointee.deadline_ns,
    target: unsafe Border.text(call.pointee.target),
    payload: unsafe Border.payload(call.pointee.input)
  )
  return core.start(given)?.rawValue ?? 0
}

extension PluginCore {
  /// What the host hands back to name this plugin.
  var argument: UnsafeMutableRawPointer { unsafe Unmanaged.passUnretained(self).toOpaque() }

  /// The plugin that the host names; it lives for ever.
  static func at(_ argument: UnsafeMutableRawPointer) -> PluginCore {
    unsafe Unmanaged<PluginCore>.fromOpaque(argument).takeUnretainedValue()
  }
}

/// Lets a thread of the host, which may block there, wait for a task.
private func awaitOnThread<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Value
{
  let meeting = Meeting<Value>()
  Task { meeting.end(await body()) }
  return meeting.value()
}

/// Where a thread waits for the value that a task brings.
// @unchecked Sendable: the value is written before the semaphore is posted and read after that.
@safe private final class Meeting<Value: Sendable>: @unchecked Sendable {
  private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  private var result: Value?

  init() { unsafe sem_init(semaphore, 0, 0) }

  deinit {
    unsafe sem_destroy(semaphore)
    unsafe semaphore.deallocate()
  }

  func end(_ value: Value) {
    result = value
    unsafe sem_post(semaphore)
  }

  func value() -> Value {
    while true {
      while unsafe sem_wait(semaphore) != 0 {}
      if let result { return result }
    }
  }
}
