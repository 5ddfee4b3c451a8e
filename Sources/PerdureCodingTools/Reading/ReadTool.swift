import PerdureModel
import PerdureValue

/// The tool `read`.
struct ReadTool: CodingTool {
  let options: CodingToolOptions

  private static let headBytes = 8_192
  private static let imageHeadBytes = 65_536

  var tool: Tool {
    Tool(
      name: "read",
      description: """
        Reads a file: text, or an image. Of a text the first 2000 lines or 50 KB are shown; use \
        offset and limit for other parts.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["path"],
        "properties": [
          "path": ["type": "string", "description": "The file, relative or absolute."],
          "offset": [
            "type": "integer", "minimum": 1, "description": "The first line to show, from 1.",
          ],
          "limit": ["type": "integer", "minimum": 1, "description": "How many lines to show."],
        ],
      ]
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let offset = Int(clamping: call.arguments["offset"]?.int ?? 1)
    let limit = call.arguments["limit"]?.int.map { Int(clamping: $0) }
    guard offset >= 1, limit.map({ $0 >= 1 }) ?? true else {
      throw PerdureError(.invalidInput, "lines are counted from 1, and at least one can be read")
    }
    let (path, reader) = try await ToolPaths(env, options)
      .openFile(call.arguments["path"]?.text ?? "")
    do {
      let result = try await read(reader, path, offset, limit, env.runsCommands)
      await reader.close()
      return result
    } catch {
      await reader.close()
      throw error
    }
  }

  private func read(
    _ reader: any FileReader,
    _ path: String,
    _ offset: Int,
    _ limit: Int?,
    _ hasShell: Bool
  ) async throws -> ToolResult {
    let head = try await reader.read(offset: 0, length: Self.imageHeadBytes)
    let info = try await reader.info()
    if let image = ImageFile(head) { return try await show(image, reader, info, path) }
    let (encoding, mark) = TextEncoding.detect(head)
    if mark == 0, TextEncoding.isBinary(Array(head.prefix(Self.headBytes))) {
      throw PerdureError(
        .invalidInput,
        "\(path.quotedForMessage) is a binary file of \(Wording.count(info.size, "byte"))",
        hint: hasShell ? "look at it with a program of the shell, such as file or xxd" : nil
      )
    }
    let (end, overflow) = (offset - 1).addingReportingOverflow(limit ?? .max)
    let range = (start: offset - 1, end: limit == nil || overflow ? nil : end)
    let isLarge = info.size > TextPart.countedBytes
    let part = try await stable(reader, path) {
      if encoding != .utf8 {
        return try await TextPart.decode(
          reader,
          encoding,
          mark: mark,
          from: range.start,
          to: range.end,
          isLarge: isLarge
        )
      }
      if isLarge, range.start == 0 {
        return try await TextPart.beginning(reader, mark: mark, to: range.end)
      }
      return try await TextPart.scan(
        reader,
        from: range.start,
        to: range.end,
        isLarge: isLarge
      )
    }
    var result = try show(part, path, info, offset, isLimited: range.end != nil, hasShell)
    if encoding != .utf8 {
      result.diagnostics.append(
        ToolDiagnostic(.info, "The file is stored as \(encoding.name).", code: "encoding")
      )
    }
    return result
  }

  /// Does it again if the file changed meanwhile; that it only grew is no matter.
  private func stable<Value>(
    _ reader: any FileReader,
    _ path: String,
    growth: Bool = true,
    _ body: () async throws -> Value
  ) async throws -> Value {
    for _ in 0..<2 {
      let before = try await reader.info()
      let value = try await body()
      let after = try await reader.info()
      let hasGrown = growth && after.size > before.size
      if hasGrown || (after.size == before.size && after.mtimeMs == before.mtimeMs) {
        return value
      }
    }
    throw FileError(
      .unknown,
      "\(path.quotedForMessage) is being changed while it is read",
      path: path,
      reason: .busy,
      hint: "read it again later"
    )
  }

  // MARK: Text

  private func show(
    _ part: TextPart,
    _ path: String,
    _ info: FileInfo,
    _ offset: Int,
    isLimited: Bool,
    _ hasShell: Bool
  ) throws -> ToolResult {
    if let total = part.totalLines, offset > total {
      throw PerdureError(
        .invalidInput,
        "line \(offset) is behind the end of \(path.quotedForMessage), which has"
          + " \(Wording.count(total, "line"))",
        hint: "give an offset up to \(total)"
      )
    }
    let shown = ShownText(part.head, isWhole: part.isWhole)
    var result = ToolResult.text(shown.text)
    result.details = [
      "truncation": shown.truncation(
        totalLines: part.selectedLines,
        totalBytes: part.selectedBytes
      )
    ]
    if let remark = remark(on: shown, part, path, info, offset, isLimited: isLimited, hasShell) {
      result.diagnostics.append(remark)
    }
    return result
  }

  private func remark(
    on shown: ShownText,
    _ part: TextPart,
    _ path: String,
    _ info: FileInfo,
    _ offset: Int,
    isLimited: Bool,
    _ hasShell: Bool
  ) -> ToolDiagnostic? {
    if shown.firstLineExceedsLimit {
      let more =
        " See more with bash: sed -n '\(offset)p' \(Self.quotedForShell(path))"
        + " | tail -c +\(shown.text.utf8.count + 1) | head -c \(ShownLimits.maxBytes)"
      return ToolDiagnostic(
        .warn,
        "Line \(offset) is longer than 50KB; only its beginning is shown." + (hasShell ? more : ""),
        code: "truncated"
      )
    }
    let last = offset + shown.lines - 1
    guard let total = part.totalLines else {
      return ToolDiagnostic(
        .info,
        "Showing lines \(offset)-\(last) of a file of \(info.size) bytes, whose lines were not"
          + " counted\(shown.limit == .bytes ? " (50KB limit)" : ""). Use offset=\(last + 1) to continue.",
        code: "truncated"
      )
    }
    if let limit = shown.limit {
      let reason = limit == .bytes ? " (50KB limit)" : ""
      return ToolDiagnostic(
        .info,
        "Showing lines \(offset)-\(last) of \(total)\(reason). Use offset=\(last + 1) to"
          + " continue.",
        code: "truncated"
      )
    }
    let left = total - last
    guard isLimited, left > 0 else { return nil }
    return ToolDiagnostic(
      .info,
      "\(Wording.count(left, "more line")) in the file. Use offset=\(last + 1) to continue.",
      code: "truncated"
    )
  }

  private static func quotedForShell(_ path: String) -> String {
    "'" + path.replacing("'", with: "'\\''") + "'"
  }

  // MARK: Images

  private func show(
    _ image: ImageFile,
    _ reader: any FileReader,
    _ info: FileInfo,
    _ path: String
  ) async throws -> ToolResult {
    let fits =
      image.kind != .bmp && info.size <= ImageFile.maxBytes
      && max(image.width ?? 0, image.height ?? 0) <= ImageFile.maxPixels
    guard fits || options.processImage != nil, info.size <= 64 << 20 else {
      throw PerdureError(
        "unsupported_image",
        "the image \(path.quotedForMessage) (\(Self.size(image)), \(info.size) bytes,"
          + " \(image.kind.rawValue)) cannot be shown as it is",
        hint: "make a PNG of at most \(ImageFile.maxPixels) pixels a side and"
          + " \(ImageFile.maxBytes) bytes of it"
      )
    }
    let bytes = try await stable(reader, path, growth: false) {
      try await reader.read(offset: 0, length: Int(clamping: info.size))
    }
    var shown = CodingToolOptions.Image(
      mimeType: image.kind.rawValue,
      bytes: bytes,
      width: image.width,
      height: image.height
    )
    if let process = options.processImage { shown = try await process(shown) }
    var text = "Image \(path): \(image.kind.rawValue), \(Self.size(image)), \(info.size) bytes."
    if let note = shown.note { text += " \(note)" }
    return ToolResult(
      output: [
        [
          "type": "image", "mimeType": .string(shown.mimeType),
          "data": .string(Base64.encode(shown.bytes)),
        ]
      ],
      diagnostics: [ToolDiagnostic(.info, text, code: "image")]
    )
  }

  private static func size(_ image: ImageFile) -> String {
    guard let width = image.width, let height = image.height else { return "of unknown size" }
    return "\(width)x\(height) pixels"
  }
}
