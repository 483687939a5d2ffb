// Every text of the pages, in English and Chinese. A part in braces is replaced. The verifier's
// texts (verdicts, steps, reasons) are its own.

export const STRINGS = {
  title: ["Chat", "对话"],
  statusTitle: ["Status", "运行状态"],
  navChat: ["Chat", "对话"],
  navStatus: ["Status", "状态"],
  navVerify: ["Verifier", "核验页"],
  nav: ["Pages", "页面"],
  language: ["Language", "语言"],
  skipStatus: ["Skip to the figures", "跳到数据"],
  skip: ["Skip to the question", "跳到提问框"],

  keyTitle: ["An API key is needed", "需要 API 密钥"],
  keyHelp: [
    "The operator gives you one: it begins with wh-. It stays in this tab and is sent to this " +
      "appliance only.",
    "请向运维人员索取，以 wh- 开头。密钥只保存在本标签页，也只发送给本设备。",
  ],
  keyHelpStatus: [
    "It needs the scope status. It stays in this tab and is sent to this appliance only.",
    "密钥需具有 status 权限。密钥只保存在本标签页，也只发送给本设备。",
  ],
  keyLabel: ["API key", "API 密钥"],
  keyUse: ["Use this key", "使用此密钥"],
  keyForget: ["Forget the key", "清除密钥"],
  keyBad: ["This does not look like a key.", "这不像是一个密钥。"],
  keyRefused: ["The appliance refused this key: {message}", "设备拒绝了该密钥：{message}"],

  stateReady: ["ready", "就绪"],
  stateLoading: ["starting", "启动中"],
  stateDraining: ["stopping", "正在停止"],
  stateFailed: ["out of order", "故障"],
  stateUnreachable: ["not reached", "无法连接"],
  stateUnknownModel: ["unknown model", "未知模型"],

  emptyTitle: ["Ask, and check the answer", "提问，并核验回答"],
  emptyLead: [
    "Every answer comes with an attestation. It is checked here, in your browser, as soon as the " +
      "answer is complete.",
    "每个回答都附有证明。回答完成后，立即在您的浏览器中核验。",
  ],
  conversation: ["Conversation", "对话内容"],
  you: ["You", "您"],
  model: ["Model", "模型"],
  prompt: ["Your question", "您的问题"],
  promptHint: ["Ask something …", "请输入问题……"],
  send: ["Send", "发送"],
  stop: ["Stop", "停止"],
  clear: ["New conversation", "新对话"],
  keys: ["Enter sends, Shift+Enter breaks the line, Esc stops.", "回车发送，Shift+回车换行，Esc 停止。"],

  settings: ["System prompt and parameters", "系统提示与参数"],
  system: ["System prompt", "系统提示"],
  temperature: ["Temperature", "温度"],
  maxTokens: ["Most tokens of the answer", "回答的最大词元数"],
  seed: ["Seed", "种子"],
  temperatureHelp: ["0 to 2; empty: as the service has it", "0 到 2；留空：按服务默认值"],
  maxTokensHelp: ["1 or more; empty: as the service has it", "至少为 1；留空：按服务默认值"],
  seedHelp: [
    "A whole number; empty: drawn from your nonce, so that the appliance cannot choose it",
    "整数；留空：由您的随机数得出，设备无法选择",
  ],
  badTemperature: ["The temperature is a number from 0 to 2.", "温度应为 0 到 2 之间的数。"],
  badMaxTokens: ["The number of tokens is a whole number from 1 on.", "词元数应为不小于 1 的整数。"],
  badSeed: ["The seed is a whole number below 2^53.", "种子应为小于 2^53 的整数。"],

  waitingFirst: ["Waiting for the first word …", "等待第一个词……"],
  thinking: ["The answer is arriving", "正在接收回答"],
  answered: ["The answer is complete.", "回答已完成。"],
  endLength: ["ended at the most tokens", "达到最大词元数"],
  endStopped: ["stopped by you", "已由您停止"],
  toolCall: ["Call of {name}", "调用 {name}"],
  leftOut: [
    "This turn is not sent along with the next question.",
    "此轮不会随下一个问题一起发送。",
  ],
  endCut: ["This answer was cut off", "回答被中断"],
  endCutMeans: [
    "The stream ended without a finish_reason. What is above may be only a part: do not take it " +
      "for the answer.",
    "数据流结束时没有 finish_reason。以上内容可能只是一部分：请勿当作完整回答。",
  ],
  endFailed: ["No answer", "没有回答"],
  endBrokenTitle: ["This answer cannot be read", "无法读取此回答"],
  endBroken: [
    "The stream broke its form ({rule}). Nothing after that was read.",
    "数据流格式错误（{rule}）。其后的内容未被读取。",
  ],
  unreachable: [
    "The appliance was not reached. Is it running, and is the network there?",
    "无法连接设备。设备是否在运行？网络是否正常？",
  ],
  errorOf: ["The appliance refused ({status}).", "设备拒绝了请求（{status}）。"],
  errorCode: ["Code", "代码"],
  errorRetry: ["Try again in {seconds} s.", "请在 {seconds} 秒后重试。"],

  evidence: ["Attestation", "证明"],
  evidenceWaiting: ["Waiting for the attestation", "等待证明"],
  evidenceNone: ["No attestation came with this answer.", "此回答没有附带证明。"],
  evidenceFetching: ["Fetching the evidence …", "正在获取证据包……"],
  evidenceChecking: ["Checking in this browser …", "正在浏览器中核验……"],
  evidenceUnfetched: ["The evidence could not be fetched.", "无法获取证据包。"],
  evidenceUnchecked: ["The check could not be made: {why}", "无法进行核验：{why}"],
  evidenceId: ["Attestation", "证明编号"],
  evidencePlace: ["Place in the log", "日志中的位置"],
  evidencePlaceOf: ["number {index} of log {log}…", "日志 {log}… 第 {index} 条"],
  evidenceNonce: ["Nonce that you sent", "您发送的随机数"],
  evidenceSigner: ["Signed by", "签名者"],
  evidenceNoSigner: ["a key that the trust file does not list", "信任文件中没有的密钥"],
  evidenceRelease: ["Model", "模型"],
  evidenceReleaseOf: ["{line}, release {release}", "{line}，第 {release} 版"],
  evidenceUnsigned: ["no signed release", "没有签名的发布"],
  evidenceTokens: ["Length", "长度"],
  evidenceTokensOf: ["{prompt} tokens in, {output} tokens out", "输入 {prompt} 个词元，输出 {output} 个词元"],
  evidenceEnd: ["How it ended, as stated", "声明的结束方式"],
  comparedTitle: ["Compared with what this browser holds", "与本浏览器所持内容比对"],
  comparedRequest: ["Request, byte for byte as sent", "请求（与发出时逐字节比对）"],
  comparedResponse: ["Answer as received", "收到的回答"],
  comparedPrefix: ["Part of the answer that was received", "已收到的部分回答"],
  comparedNonce: ["Nonce of this request", "本次请求的随机数"],
  same: ["the same", "一致"],
  differs: ["different", "不一致"],
  open: ["could not be compared", "无法比对"],
  steps: ["The 25 checks", "25 项检查"],
  ownTrustMeans: [
    "Checked with the key that this appliance gives out itself: it shows that the parts fit " +
      "together, not that the appliance is genuine, and nothing about who released the model. " +
      "Choose your own trust file for that.",
    "所用密钥由本设备自行提供：只能说明各部分相互吻合，不能证明设备本身可信，也不能说明模型由谁发布。要证明这些，请选择您自己的信任文件。",
  ],
  ownKey: ["the key that this appliance gives out", "本设备自行提供的密钥"],
  yourTrustMeans: ["Checked with your trust file {name}.", "已按您的信任文件 {name} 核验。"],
  verifyHere: ["Verify in this browser", "在浏览器中核验"],
  flip: ["Flip a byte", "翻转一个字节"],
  flipHelp: [
    "Changes one byte of a copy of the evidence and checks that.",
    "更改证据包副本中的一个字节，再进行核验。",
  ],
  flipped: [
    "A copy with one byte changed: byte {at} of {size}, {before} to {after}.",
    "副本中有一个字节被更改：{size} 个字节中的第 {at} 个，由 {before} 改为 {after}。",
  ],
  flipNamed: ["Tampered copy", "被篡改的副本"],
  saveBundle: ["Save evidence", "保存证据包"],
  saveTranscript: ["Save transcript", "保存转写记录"],
  saveRequest: ["Save request", "保存请求"],
  saveResponse: ["Save response", "保存响应"],
  offline: ["Check it elsewhere", "在别处核验"],
  offlineMeans: [
    "Who serves a page decides what it says. An auditor saves these files and uses his own copy of " +
      "the verifier, with a trust file from somebody he trusts:",
    "提供页面的一方可以决定页面显示什么。审计者应保存这些文件，使用自己的核验程序副本，以及从可信之人处取得的信任文件：",
  ],

  trust: ["Whom you trust", "信任文件"],
  trustOwn: ["What this appliance says of itself", "本设备自行声明的密钥"],
  trustOwnMeans: [
    "Keys and log come from this appliance. That trusts the appliance itself: a forged appliance " +
      "would pass too.",
    "密钥与日志信息来自本设备，即信任设备本身：伪造的设备也能通过。",
  ],
  trustFile: ["Your own trust file (trust.toml)", "您自己的信任文件（trust.toml）"],
  trustFileMeans: [
    "Get it from somebody you trust, not from this appliance. It is kept in this browser.",
    "请从可信之人处取得，而不是从本设备取得。文件保存在本浏览器中。",
  ],
  trustChoose: ["Choose a file …", "选择文件……"],
  trustRemove: ["Remove", "移除"],
  trustBad: ["This is no trust file: {why}", "这不是信任文件：{why}"],
  trustNone: ["This appliance gives out no keys now.", "本设备目前未提供密钥。"],
  trustChanged: [
    "The keys that this appliance gives out have changed since your first visit.",
    "本设备提供的密钥自您首次访问后已更改。",
  ],

  statusLead: ["What this appliance is doing now.", "本设备当前的运行情况。"],
  statusAt: ["As of {time}", "更新于 {time}"],
  statusStale: ["Not current: the last answer came at {time}.", "数据已过时：上次更新于 {time}。"],
  statusReasons: ["Why", "原因"],
  statusErrors: ["Last errors", "最近的错误"],
  statusNoErrors: ["none since the start", "启动以来没有错误"],
  panelModel: ["Model and trust", "模型与信任"],
  panelWork: ["Work", "负载"],
  panelLog: ["Log", "日志"],
  panelProcess: ["Appliance", "设备"],
  rowModel: ["Model", "模型"],
  rowLine: ["Line", "系列"],
  rowRelease: ["Release", "版次"],
  rowVerdict: ["Weights when loaded", "权重加载时"],
  rowMode: ["Mode", "模式"],
  rowWriteXor: ["Write-xor-execute", "写与执行互斥"],
  rowResidency: ["Weights in memory", "权重驻留方式"],
  rowKernel: ["Kernel path", "计算路径"],
  rowContext: ["Context", "上下文长度"],
  rowModelDigest: ["Model digest", "模型摘要"],
  rowOpen: ["Requests open", "进行中的请求"],
  rowRunning: ["Being answered", "正在回答"],
  rowQueued: ["Waiting", "排队中"],
  rowMaxRunning: ["Answered at once, at most", "同时回答上限"],
  rowMaxQueued: ["Waiting, at most", "排队上限"],
  rowGenerated: ["Generating now", "当前生成速度"],
  rowPrompt: ["Reading prompts now", "当前提示处理速度"],
  rowGeneratedAll: ["Generated", "累计生成"],
  rowPromptAll: ["Prompts read", "累计提示"],
  rowCachedAll: ["Of these from the cache", "其中来自缓存"],
  rowDisconnects: ["Clients that left", "中途断开的客户端"],
  rowLogState: ["State", "状态"],
  rowLogSize: ["Entries", "条目数"],
  rowLogTime: ["Last checkpoint", "最近检查点"],
  rowLogOpen: ["Admitted, not closed yet", "已登记未结束"],
  rowLogRoot: ["Root", "根哈希"],
  rowLogId: ["Log", "日志标识"],
  rowIssuer: ["Name", "名称"],
  rowProtection: ["Private keys protected by", "私钥保护方式"],
  rowUptime: ["Running for", "已运行"],
  rowStarted: ["Started", "启动时间"],
  rowStart: ["Time to ready", "启动用时"],
  rowMemory: ["Memory of the process", "进程内存"],
  rowWeights: ["Of these weights", "其中权重"],
  rowWeightsLocked: ["Weights never swapped", "权重锁定在内存"],
  rowKeys: ["API keys in force", "有效 API 密钥"],
  rowKeysFailure: ["Trouble with keys", "密钥故障"],
  rowLost: ["Closed as lost at the start", "启动时补记为丢失"],
  rowLogLines: ["Lines of the access log lost", "访问日志丢失行数"],
  daysHours: ["{days} d {hours} h", "{days} 天 {hours} 小时"],
  hoursMinutes: ["{hours} h {minutes} min", "{hours} 小时 {minutes} 分"],
  minutesSeconds: ["{minutes} min {seconds} s", "{minutes} 分 {seconds} 秒"],
  seconds: ["{count} s", "{count} 秒"],
  tokens: ["{count} tokens", "{count} 个词元"],
  perSecond: ["{count} tokens/s", "{count} 词元/秒"],
  yes: ["yes", "是"],
  no: ["no", "否"],
  none: ["none", "无"],
  more: ["Everything the service says", "服务返回的全部内容"],
};

let chosen = 0;

/** The place of the language in each pair: 0 English, 1 Chinese. */
export const language = () => chosen;

export function setLanguage(index) {
  chosen = index;
}

/** The text of a key in the language chosen, with its parts put in. */
export function text(key, parts = {}) {
  let found = STRINGS[key][chosen];
  for (const [name, part] of Object.entries(parts)) {
    found = found.replace(`{${name}}`, () => String(part));
  }
  return found;
}
