import PerdureCodingTools
public import PerdureModel

extension Extension {
  /// The extension `coding-tools`, with which a model works on the files of its environment: `read`,
  /// `write`, `edit`, `ls`, `grep` and `glob`; with `shell` also `bash`, for environments that run
  /// commands, and with `sessions` those that it leaves in the background, and `bash_session`.
  ///
  /// All of them use the environment of the conversation alone, and fail where there is none.
  public static func codingTools(
    shell: Bool,
    sessions: Bool = false,
    _ options: CodingToolOptions = CodingToolOptions()
  ) -> Extension {
    Extension(
      name: "coding-tools",
      tools: CodingTools.tools(shell: shell, sessions: sessions, options)
    )
  }
}
