import CFFI
import Glibc
import PerdurePluginHost
import PerdureValue

/// The functions of the libraries that a description names, loaded into this process.
struct LibraryFunctions: ForeignFunctions {
  private let prepared: [String: PreparedFunction]

  /// Loads the libraries and prepares the calls; throws what the loader says.
  init(_ functions: [ForeignFunction]) throws(ForeignFailure) {
    var libraries: [String: LoadedLibrary] = [:]
    var prepared: [String: PreparedFunction] = [:]
    for function in functions {
      let name = function.library
      let library: LoadedLibrary
      if let loaded = libraries[name] {
        library = loaded
      } else {
        library = try LoadedLibrary(name)
      }
      libraries[name] = library
      prepared[Self.key(function)] = try PreparedFunction(function, library)
    }
    self.prepared = prepared
  }

  /// Two tools may call one function as if it had two signatures.
  private static func key(_ function: ForeignFunction) -> String { "\(function)" }

  func call(
    _ function: ForeignFunction,
    _ arguments: JSONObject
  ) throws(ForeignFailure) -> JSONObject {
    guard let prepared = prepared[Self.key(function)] else {
      throw ForeignFailure("\(function.symbol) was not loaded")
    }
    return try prepared.call(arguments)
  }
}

/// A library that was loaded and stays so.
// Safe and @unchecked Sendable: the handle is only given to dlsym.
@safe private struct LoadedLibrary: @unchecked Sendable {
  private let handle: UnsafeMutableRawPointer
  private let name: String

  init(_ name: String) throws(ForeignFailure) {
    guard let handle = unsafe dlopen(name, RTLD_NOW | RTLD_LOCAL) else {
      let text = unsafe dlerror().map { unsafe String(cString: $0) }
      throw ForeignFailure("the library \(name) cannot be loaded: \(text ?? "no reason given")")
    }
    unsafe self.handle = handle
    self.name = name
  }

  func symbol(_ symbol: String) throws(ForeignFailure) -> UnsafeMutableRawPointer {
    if let address = unsafe dlsym(handle, symbol) { return unsafe address }
    throw ForeignFailure("the library \(name) does not export \(symbol)")
  }
}

/// A function with a signature that libffi has taken.
// Safe and @unchecked Sendable: written once; what a call writes is memory of its own.
@safe private struct PreparedFunction: @unchecked Sendable {
  private let function: ForeignFunction
  private let address: UnsafeMutableRawPointer
  private let free: UnsafeMutableRawPointer?
  private let signature: UnsafeMutablePointer<ffi_cif>
  private let returnType: UnsafeMutablePointer<ffi_type>?
  /// Lives as long as the signature, which points into it.
  private let memory = CallMemory()

  init(_ function: ForeignFunction, _ library: LoadedLibrary) throws(ForeignFailure) {
    self.function = function
    unsafe address = try library.symbol(function.symbol)
    if case .text(let symbol?) = function.returns.kind {
      unsafe free = try library.symbol(symbol)
    } else {
      unsafe free = nil
    }
    let types = unsafe memory.takePointers(function.count, to: ffi_type.self)
    var position = 0
    for parameter in function.parameters {
      unsafe Self.place(parameter, types + position, memory)
      position += parameter.count
    }
    unsafe returnType = Self.type(of: function.returns.kind, memory)
    unsafe signature = memory.take(MemoryLayout<ffi_cif>.size)
      .bindMemory(to: ffi_cif.self, capacity: 1)
    let status = unsafe perdure_ffi_prepare(signature, UInt32(position), returnType, types)
    guard status == 0 else {
      throw ForeignFailure("the signature of \(function.symbol) cannot be called on this machine")
    }
  }

  /// Writes the types that a parameter has in C.
  private static func place(
    _ parameter: ForeignParameter,
    _ types: UnsafeMutablePointer<UnsafeMutablePointer<ffi_type>?>,
    _ memory: CallMemory
  ) {
    let pointer = unsafe perdure_ffi_type(CChar(UInt8(ascii: "p")), 8)
    unsafe types[0] = pointer
    switch parameter {
    case .scalar(let scalar, _): unsafe types[0] = scalar.type
    case .null, .text, .scalarOut: break
    case .bytesIn(_, let length, _): unsafe types[1] = length.type
    case .bytesOut(_, _, let length, let written, _):
      unsafe types[1] = written == .pointer ? pointer : length.type
    case .structure(let members, _): unsafe types[0] = structure(members, memory)
    }
  }

  private static func type(
    of kind: ForeignReturn.Kind,
    _ memory: CallMemory
  ) -> UnsafeMutablePointer<ffi_type>? {
    switch kind {
    case .nothing: return unsafe perdure_ffi_type(CChar(UInt8(ascii: "v")), 0)
    case .scalar(let scalar): return unsafe scalar.type
    case .text: return unsafe perdure_ffi_type(CChar(UInt8(ascii: "p")), 8)
    case .structure(let members): return unsafe structure(members, memory)
    }
  }

  private static func structure(
    _ members: [ForeignMember],
    _ memory: CallMemory
  ) -> UnsafeMutablePointer<ffi_type> {
    let list = unsafe memory.takePointers(members.count, to: ffi_type.self)
    for (index, member) in members.enumerated() { unsafe list[index] = member.type.type }
    let type = unsafe memory.take(MemoryLayout<ffi_type>.size)
      .bindMemory(to: ffi_type.self, capacity: 1)
    unsafe perdure_ffi_structure(type, list)
    return unsafe type
  }

  // MARK: Calls

  /// Calls the function once.
  func call(_ arguments: JSONObject) throws(ForeignFailure) -> JSONObject {
    let memory = CallMemory()
    let values = unsafe memory.takePointers(function.count, to: UInt8.self)
    var frame = unsafe CallFrame(memory: memory, values: values, arguments: arguments)
    for parameter in function.parameters { try frame.add(parameter) }
    let size = unsafe max(returnType?.pointee.size ?? 0, 16)
    let result = unsafe memory.take(size)
    let raw = unsafe UnsafeMutableRawPointer(values)
      .assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
    unsafe perdure_ffi_call(signature, address, result, raw)
    return try finish(unsafe returned(result), frame)
  }

  /// What the function returned, and the number that it is.
  private struct Returned {
    var value: JSON?
    var number: Int64?
    var failure: ForeignFailure?
  }

  private func returned(_ place: UnsafeMutableRawPointer) -> Returned {
    do throws(ForeignFailure) {
      switch function.returns.kind {
      case .nothing: return Returned()
      case .scalar(let scalar):
        let value = try unsafe scalar.read(place, function.returns.name)
        return Returned(value: value, number: value.int)
      case .text:
        guard let text = unsafe place.load(as: UnsafeMutablePointer<CChar>?.self) else {
          return Returned(value: .null)
        }
        let value = unsafe String(cString: text)
        if let free = unsafe free {
          typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Void
          unsafe unsafeBitCast(free, to: Free.self)(text)
        }
        return Returned(value: .string(value))
      case .structure(let members):
        return Returned(value: .object(try unsafe read(members, place)))
      }
    } catch { return Returned(failure: error) }
  }

  private func read(
    _ members: [ForeignMember],
    _ place: UnsafeMutableRawPointer
  ) throws(ForeignFailure) -> JSONObject {
    var object = JSONObject()
    let offsets = unsafe CallFrame.offsets(returnType, members.count)
    for (member, offset) in zip(members, offsets) {
      object[JSONString(member.name)] = try unsafe member.type.read(place + offset, member.name)
    }
    return object
  }

  private func finish(
    _ returned: Returned,
    _ frame: CallFrame
  ) throws(ForeignFailure) -> JSONObject {
    if let failure = returned.failure { throw failure }
    if let ok = function.returns.ok, let number = returned.number, !ok.contains(number) {
      let what = function.returns.errors[number] ?? "\(function.symbol) answers \(number)"
      throw ForeignFailure(what)
    }
    var values = JSONObject()
    if !function.returns.isStatus, !frame.usesReturnedLength {
      values[JSONString(function.returns.name)] = returned.value
    }
    for (name, value) in try frame.results(returned: returned.number) { values[name] = value }
    return values
  }
}
