import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Functions of a library that was made for something else, called as tools.
@Suite(.timeLimit(.minutes(5))) struct ForeignFunctionTests {
  private static let scalars: [(String, JSON, JSON, String)] = [
    ("negate_i8", "i8", -128, "-128"), ("negate_i8", "i8", 5, "-5"),
    ("negate_i16", "i16", 300, "-300"), ("negate_i32", "i32", 70_000, "-70000"),
    ("negate_i64", "i64", .int(Int64.max), "-9223372036854775807"), ("flip_u8", "u8", 1, "254"),
    ("flip_u16", "u16", 1, "65534"), ("flip_u32", "u32", 1, "4294967294"),
    ("flip_u64", "u64", 0, "18446744073709551615"),
    ("flip_u64", "u64", .bigInteger("18446744073709551615"), "0"),
    ("half_f32", "f32", 3, "1.5"), ("half_f64", "f64", .double(0.25), "0.125"),
  ]

  @Test func `numbers of every type go in and out`() async throws {
    let types = Dictionary(Self.scalars.map { ($0.0, $0.1) }, uniquingKeysWith: { a, _ in a })
    let tools = types.map { ForeignBench.unary($0.key, $0.value) }
    try await ForeignBench.with(tools) { bench in
      for (name, _, argument, expected) in Self.scalars {
        let text = try await bench.text(name, ["n": argument])
        #expect(text == expected, "\(name)")
      }
    }
  }

  @Test(
    arguments: [
      ("negate_i8", "i8", 128), ("flip_u8", "u8", -1), ("flip_u32", "u32", 4_294_967_296),
      ("negate_i64", "i64", .bigInteger("9223372036854775808")),
      ("half_f32", "f32", .double(1e300)),
    ] as [(String, JSON, JSON)]
  )
  func `a number that its type cannot hold is refused before the call`(
    _ name: String,
    _ type: JSON,
    _ argument: JSON
  ) async throws {
    try await ForeignBench.with([ForeignBench.unary(name, type)]) { bench in
      let error = await bench.failure(name, ["n": argument])
      #expect(error?.message.hasPrefix("n is not a") == true, "\(String(describing: error))")
      #expect(bench.plugin.strikes == 0)
    }
  }

  @Test func `arguments in registers and on the stack arrive`() async throws {
    let types = ["i8", "u16", "f32", "i64", "f64", "u32", "i32", "u8", "f64", "i16"]
    let args: [JSON] = types.enumerated().map { ["type": .string($1), "value": .int($0 + 1)] }
    try await ForeignBench.with([ForeignBench.tool("all", [:], args, "f64")]) { bench in
      let text = try await bench.text("all")
      #expect(text == "55.0")
    }
  }

  @Test func `a struct goes in and out by value`() async throws {
    let members: JSON = [
      ["name": "tag", "type": "i8"], ["name": "x", "type": "f64"], ["name": "y", "type": "i32"],
    ]
    let tool = ForeignBench.tool(
      "mirror",
      ["p": ["type": "object"]],
      [["type": "struct", "members": members, "from": "p"]],
      ["type": "struct", "members": members]
    )
    try await ForeignBench.with([tool]) { bench in
      let text = try await bench.text("mirror", ["p": ["tag": 1, "x": .double(2.5), "y": -3]])
      #expect(text == #"{"tag":-1,"x":-2.5,"y":3}"#)
      let error = await bench.failure("mirror", ["p": ["tag": 1, "x": 2]])
      #expect(error?.message == "p.y is missing")
    }
  }

  @Test func `texts go in and out, and are given back`() async throws {
    let text: JSONObject = ["text": ["type": "string"]]
    let input: [JSON] = [["type": "cstr_in", "from": "text"]]
    let tools = [
      ForeignBench.tool("count", text, input, "u32"), ForeignBench.tool("name", [:], [], "cstr"),
      ForeignBench.tool("no_name", [:], [], "cstr"),
      ForeignBench.tool("twice", text, input, ["type": "cstr", "free": "give_back"]),
      ForeignBench.tool("not_given_back", [:], [], "i32"),
      ForeignBench.tool("nothing", [:], [["type": "ptr", "value": .null]], "void"),
    ]
    try await ForeignBench.with(tools) { bench in
      let texts = [
        try await bench.text("count", ["text": "caf\u{e9}"]), try await bench.text("name"),
        try await bench.text("no_name"), try await bench.text("twice", ["text": "ab"]),
        try await bench.text("not_given_back"), try await bench.text("nothing"),
      ]
      #expect(texts == ["5", "caf\u{e9}", "null", "abab", "0", "done"])
      let error = await bench.failure("count", ["text": "a\u{0}b"])
      #expect(error?.message == "text has a zero inside, which would end it")
    }
  }

  @Test func `buffers are filled and cut to what was written`() async throws {
    let room: JSONObject = ["text": ["type": "string"], "room": ["type": "integer"]]
    let tools = [
      ForeignBench.tool(
        "reversed",
        room,
        [
          ["type": "bytes_out", "name": "back", "room": "room", "length": "u64"],
          ["type": "bytes_in", "from": "text", "length": "u32"],
        ],
        ["type": "i32", "ok": [0], "errors": ["-5": "there is too little room"]]
      ),
      ForeignBench.tool(
        "say",
        ["number": ["type": "integer"]],
        [
          ["type": "bytes_out", "room": 32, "length": "i32", "written": "return"],
          ["type": "i32", "from": "number"],
        ],
        "i32"
      ),
      ForeignBench.tool(
        "fill",
        [:],
        [["type": "bytes_out", "room": 4, "length": "u64", "written": "zero"]],
        "void"
      ),
      ForeignBench.tool(
        "lie",
        [:],
        [["type": "bytes_out", "room": 4, "length": "i32", "written": "return"]],
        "i32"
      ),
    ]
    try await ForeignBench.with(tools) { bench in
      let texts = [
        try await bench.text("reversed", ["text": "abc", "room": 3]),
        try await bench.text("say", ["number": -42]), try await bench.text("fill"),
      ]
      #expect(texts == ["cba", "-42", "xxxx"])
      let errors = [
        await bench.failure("reversed", ["text": "abc", "room": 2]),
        await bench.failure("reversed", ["text": "abc", "room": 0]), await bench.failure("lie"),
      ].map { $0?.message ?? "" }
      #expect(
        errors == [
          "there is too little room", "room is not an integer from 1 to 16777216",
          "the function says that it wrote 5 bytes into 4",
        ]
      )
    }
  }

  @Test func `several values are an object, also for programs`() async throws {
    let tool = ForeignBench.tool(
      "divide",
      ["a": ["type": "integer"], "b": ["type": "integer"]],
      [
        ["type": "i32", "from": "a"], ["type": "i32", "from": "b"],
        ["type": "ptr", "to": "i32", "name": "quotient"],
        ["type": "ptr", "to": "i32", "name": "rest"],
      ],
      ["type": "i32", "ok": [0]],
      more: ["structuredOutputSchema": ["type": "object"]]
    )
    try await ForeignBench.with([tool]) { bench in
      let result = try await bench.call("divide", ["a": 17, "b": 5])
      #expect(result.structuredOutput == ["quotient": 3, "rest": 2])
      #expect(result.output?.first?["text"] == #"{"quotient":3,"rest":2}"#)
      let error = await bench.failure("divide", ["a": 1, "b": 0])
      #expect(error?.message == "divide answers 7")
    }
  }

  @Test(arguments: ["crash", "leave", "stop", "deep"])
  func `a function that takes its process down costs its own call`(_ name: String) async throws {
    let tools = [ForeignBench.unary(name, "i32"), ForeignBench.unary("negate_i32", "i32")]
    try await ForeignBench.with(tools) { bench in
      let error = await bench.failure(name, ["n": 1])
      #expect(error?.code == .pluginFault, "\(String(describing: error))")
      let text = try await bench.text("negate_i32", ["n": 1])
      #expect(text == "-1")
      #expect(bench.reports.messages("plugin_died").count == 1)
    }
  }

  @Test func `a function that never returns is ended with its process`() async throws {
    let began = try Fixtures.folder() + "/began"
    let hang = ForeignBench.tool(
      "hang",
      ["path": ["type": "string"]],
      [["type": "cstr_in", "from": "path"]],
      "i32",
      more: ["graceMs": 100]
    )
    try await ForeignBench.with([hang, ForeignBench.unary("negate_i32", "i32")]) { bench in
      let host = FakeHost()
      let call = Task {
        try await bench.call("hang", ["path": .string(began)], host: host)
      }
      while !FileManager.default.fileExists(atPath: began) { await Task.yield() }
      host.state.withLock { $0.reason = .deadline }
      call.cancel()
      await #expect(throws: (any Error).self) { try await call.value }
      let text = try await bench.text("negate_i32", ["n": 1])
      #expect(text == "-1")
    }
  }

  @Test func `the process of the host calls no function`() async throws {
    let path = try ForeignBench.description([ForeignBench.unary("negate_i32", "i32")])
    let error = await #expect(throws: PerdureError.self) { try await PluginBench.load(path) }
    #expect(error?.message.hasSuffix("must run in a process of its own") == true)
  }

  @Test func `a description is installed, verified and upgraded as a plugin is`() async throws {
    let bench = try InstallBench()
    let tools = [ForeignBench.unary("negate_i32", "i32")]
    let first = try ForeignBench.description(tools)
    // The folder has one such file.
    let folder = String(first.dropLast("/functions.ffi.json".count))
    try await bench.installation.install(folder, InstallBench.unsigned)
    let hot = try await HotBench.open(
      bench.folder,
      calling: "negate_i32",
      ["n": 7],
      configure: { $0.runner = Place.program },
      change: { $0.isolation = .auto }
    )
    let before = try await hot.ask()
    #expect(before == "It says: -7")
    let twice = ForeignBench.tool(
      "flip_u32",
      ["n": ["type": "integer"]],
      [["type": "u32", "from": "n"]],
      "u32",
      name: "negate_i32"
    )
    let second = try ForeignBench.description([twice], version: "1.1.0")
    _ = try await hot.plugins.upgrade(second, InstallBench.unsigned)
    let after = try await hot.ask()
    #expect(after == "It says: 4294967288")
    #expect(try bench.installation.verify().isEmpty)
    try await hot.close()
  }
}
