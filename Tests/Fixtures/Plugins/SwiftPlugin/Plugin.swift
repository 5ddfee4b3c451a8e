// A plugin with a Swift runtime of its own: actors, tasks, Foundation and casts to protocols, so that
// the border is tried with more than C behind it.
import CPerdure
import Foundation

/// The note: UInt32 words only, so that nothing is padded.
///
/// "Perd" "ure\0", then the runtime.
@section(".note.perdure") @used
let note:
  (
    UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32,
    UInt32, UInt32, UInt32, UInt32, UInt32, UInt32
  ) = (
    8, 52, 1, 0x6472_6550, 0x0065_7275, 52, 1, 0, 1, 0,
    0x6669_7773, 0x7964_2d74, 0x696d_616e, 0x2e36_3a63, 0x0031_2e33, 0, 0, 0
  )

protocol Shape { var area: Double { get } }
protocol Named { var name: String { get } }
struct Square: Shape, Named {
  var side: Double
  var area: Double { side * side }
  var name: String { "square" }
}
struct Dot: Shape { var area: Double { 0 } }

actor Tally {
  private var sum = 0
  func add(_ number: Int) -> Int {
    sum += number
    return sum
  }
}

struct Input: Decodable {
  struct Arguments: Decodable { var numbers: [Int] }
  var callId: String
  var arguments: Arguments
}

struct Answer: Encodable {
  struct Item: Encodable {
    var type = "text"
    var text: String
  }
  var output: [Item]
  var structuredOutput: [String: Int]
}

nonisolated(unsafe) var calls: UnsafePointer<pdr_calls_1>?

func complete(_ id: UInt64, _ bytes: Data) {
  bytes.withUnsafeBytes { raw in
    let buffer = raw.bindMemory(to: UInt8.self)
    var blob = pdr_blob()
    blob.size = UInt32(MemoryLayout<pdr_blob>.size)
    blob.ptr = buffer.baseAddress
    blob.len = buffer.count
    _ = calls?.pointee.complete(calls?.pointee.ctx, id, 0, &blob, nil)
  }
}

func fail(_ id: UInt64, _ error: any Error) {
  let text = Array("\(error)".utf8)
  text.withUnsafeBufferPointer { buffer in
    var err = pdr_err()
    err.size = UInt32(MemoryLayout<pdr_err>.size)
    err.code = -11
    err.flags = 8
    err.message = pdr_str(ptr: buffer.baseAddress, len: buffer.count)
    _ = calls?.pointee.complete(calls?.pointee.ctx, id, -11, nil, &err)
  }
}

func casts() -> String {
  let shapes: [any Shape] = [Square(side: 2), Dot()]
  return shapes.map { ($0 as? any Named)?.name ?? "nameless" }.joined(separator: ",")
}

func run(_ id: UInt64, _ bytes: Data) async {
  do {
    let input = try JSONDecoder().decode(Input.self, from: bytes)
    let tally = Tally()
    await withTaskGroup(of: Void.self) { group in
      for number in input.arguments.numbers { group.addTask { _ = await tally.add(number) } }
    }
    try await Task.sleep(nanoseconds: 1_000_000)
    let sum = await tally.add(0)
    let text = String(format: "%@ %@ %.1f", input.callId, casts(), Double(sum))
    let answer = Answer(output: [.init(text: text)], structuredOutput: ["sum": sum])
    complete(id, try JSONEncoder().encode(answer))
  } catch {
    fail(id, error)
  }
}

// The contract names the function.
// swift-format-ignore: AlwaysUseLowerCamelCase
@c(perdure_plugin_1) @implementation
public func perdure_plugin_1(
  _ host: UnsafePointer<pdr_host>!,
  _ out: UnsafeMutablePointer<pdr_plugin>!,
  _ err: UnsafeMutablePointer<pdr_errbuf>!
) -> Int32 {
  let name = Array("perdure.calls/1".utf8)
  let table = name.withUnsafeBufferPointer { name in
    host.pointee.query(
      host.pointee.ctx,
      pdr_str(ptr: name.baseAddress, len: name.count),
      UInt32(MemoryLayout<pdr_calls_1>.size)
    )
  }
  guard let table else { return -10 }
  calls = table.assumingMemoryBound(to: pdr_calls_1.self)
  out.pointee.start = { _, call in
    guard let call, let input = call.pointee.input else { return -7 }
    let bytes = Data(bytes: input.pointee.ptr, count: input.pointee.len)
    let id = call.pointee.id
    Task { await run(id, bytes) }
    return 0
  }
  return 0
}
