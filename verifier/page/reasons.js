// What each step shows and does not, and what each reason means, in English and Chinese.

// number: [what holds, what this shows, what it does not show]
const STEP_TEXTS = {
  1: [
    ["The evidence file is well formed", "证据包格式正确"],
    ["The file has one possible reading.", "文件只有一种解读方式。"],
    ["Who made it.", "由谁制作。"],
  ],
  2: [
    ["The statement is a signed object", "声明是签名对象"],
    ["It says of itself that it is a statement, and nothing else.", "它自称为声明，而非他物。"],
    ["That the signature is right: check 5.", "签名是否正确：见第 5 项。"],
  ],
  3: [
    ["The statement says all it must, and nothing unknown", "声明内容完整且无未知项"],
    ["Every claim is there, in its range.", "每项内容齐备且在允许范围内。"],
    ["That the claims are true.", "内容是否属实。"],
  ],
  4: [
    ["You trust the signer's key", "您信任签名者的密钥"],
    ["Your trust file lists the key for statements about answers.", "信任文件将该密钥列为回答声明之用。"],
    ["That your trust file is right: you vouch for it.", "信任文件是否正确：由您自己负责。"],
  ],
  5: [
    ["The signature is genuine", "签名真实"],
    [
      "Whoever holds that key signed exactly this statement.",
      "该密钥的持有者签署的正是这份声明。",
    ],
    ["That the key was not stolen.", "密钥是否被盗。"],
  ],
  6: [
    ["The key was in force at that time", "当时密钥有效"],
    [
      "By your trust file, the key counted while the answer was made.",
      "依据信任文件，生成回答期间该密钥有效。",
    ],
    ["That the time is right: the appliance says it.", "时间是否准确：出自设备自述。"],
  ],
  7: [
    ["Made in production, and covers everything", "在生产模式下生成且全面覆盖"],
    [
      "The appliance states: no test mode, signed weights, all parts covered.",
      "设备声明：非测试模式、权重已签名、各部分均被覆盖。",
    ],
    ["That this is so: it is the appliance's word.", "是否属实：这是设备一方的说法。"],
  ],
  8: [
    ["It does not come from the future", "并非来自未来"],
    [
      "The answer did not end after the time of this check, give or take five minutes.",
      "回答的结束时间不晚于核验时间，允许五分钟误差。",
    ],
    ["When it was made.", "实际生成时间。"],
  ],
  9: [
    ["Signer, model, nonce and time are as you expected", "签名者、模型、随机数与时间符合预期"],
    ["What you filled in above equals what is stated.", "您在上方填写的内容与声明一致。"],
    ["Anything that you did not fill in.", "未填写的项目。"],
  ],
  10: [
    ["There is a checkpoint of the log", "附有日志检查点"],
    ["The bundle has a signed summary of the whole log.", "证据包含有整个日志的签名摘要。"],
    ["That it is genuine: check 11.", "是否真实：见第 11 项。"],
  ],
  11: [
    ["The checkpoint is genuine", "检查点真实"],
    ["A key that you trust signed the state of this log.", "您信任的密钥签署了该日志的状态。"],
    ["That others were shown the same state.", "他人所见是否为同一状态。"],
  ],
  12: [
    ["You know this log", "您认可此日志"],
    ["Your trust file names this very log.", "信任文件写明了这一日志。"],
    ["That the appliance keeps no second log.", "设备是否另有日志。"],
  ],
  13: [
    ["The statement is in the log", "声明已记入日志"],
    ["It stands at its place, and cannot be taken out unseen.", "它位于应在的位置，无法被悄然移除。"],
    ["That what the log says is true.", "日志内容是否属实。"],
  ],
  14: [
    ["The request was registered before the answer began", "请求在回答开始前已登记"],
    [
      "Model, parameters, seed and request were fixed beforehand, and are the same.",
      "模型、参数、种子与请求事先确定，且前后一致。",
    ],
    ["That the request was not also registered elsewhere.", "请求是否也在别处登记。"],
  ],
  15: [
    ["The registration is in the log", "登记已记入日志"],
    ["It stands before the statement in the same log.", "它位于同一日志中声明之前。"],
    ["How much time lies between the two.", "两者相隔多久。"],
  ],
  16: [
    ["The log only grew", "日志只增未改"],
    [
      "The log still begins as it was when the statement was made.",
      "日志的开头与作出声明时相同。",
    ],
    ["What became of the log afterwards.", "日志此后的变化。"],
  ],
  17: [
    ["The log is the one you saw before", "与您先前所见的日志一致"],
    ["If you gave a head of the log: it is the same.", "若您提供了日志头：两者相同。"],
    ["Anything, if you gave none.", "未提供时不说明任何事。"],
  ],
  18: [
    ["The texts are those of the statement", "文本与声明一致"],
    [
      "Request, prompt, answer, tokens and trace, as far as they are here, are what was committed to.",
      "请求、提示、回答、词元与轨迹（凡附带者）均与承诺一致。",
    ],
    ["That the model made this answer from this request.", "回答是否由模型据此请求生成。"],
  ],
  19: [
    ["The numbers fit together", "数量相符"],
    ["As many tokens and positions as stated.", "词元与位置的数量与声明相符。"],
    ["That the tokens are right.", "词元是否正确。"],
  ],
  20: [
    ["The answer is whole", "回答完整"],
    ["It is well formed and ended as stated.", "格式正确，且结束方式与声明一致。"],
    ["That you received all of it.", "您是否收到全部内容。"],
  ],
  21: [
    ["Seed, request and answer are as you expected", "种子、请求与回答符合预期"],
    [
      "The seed follows from your nonce where it should; the texts that you gave are the same.",
      "种子在应当时由随机数得出；您提供的文本与之相同。",
    ],
    ["Anything about texts that you did not give.", "未提供的文本。"],
  ],
  22: [
    ["The list of withdrawals is good", "撤销列表有效"],
    ["It is there if you require it, signed and fresh.", "按要求附有，已签名且未过期。"],
    ["That there is no newer list.", "是否有更新的列表。"],
  ],
  23: [
    ["The model's release is named", "附有模型发布声明"],
    ["The release speaks of this very model.", "该发布所指正是这一模型。"],
    ["That these weights really computed the answer.", "回答是否确由这些权重计算。"],
  ],
  24: [
    ["Suppliers you trust signed the release", "您信任的供应方签署了该发布"],
    ["Enough keys that may sign this line of models did.", "有权签署该系列模型的密钥达到所需数量。"],
    ["That the model is good.", "模型是否优良。"],
  ],
  25: [
    ["The model was not withdrawn or outdated", "模型未被撤回且未过期"],
    ["It was valid when the answer began, by your rules.", "依据您的规则，回答开始时模型有效。"],
    ["What was withdrawn after your list.", "列表之后的撤回。"],
  ],
};

const REASON_TEXTS = {
  usage: ["An input cannot be used.", "有输入无法使用。"],
  internal: [
    "This page met an error of its own. That is never a pass.",
    "本页自身发生错误，绝不视为通过。",
  ],
  "bundle-format": ["The evidence file is damaged, or is no such file.", "证据包已损坏，或并非证据包。"],
  "statement-format": ["The statement is damaged.", "声明已损坏。"],
  "statement-type": ["A signed object of another kind stands in place of the statement.", "声明的位置上是另一种签名对象。"],
  "statement-claims": ["The statement lacks something, or says something out of range or unknown.", "声明有缺失，或含有越界或未知的内容。"],
  "unknown-key": ["Your trust file does not list the key that signed.", "信任文件没有列出该签名密钥。"],
  "key-role": ["The key that signed is listed for another purpose.", "该签名密钥被列为其他用途。"],
  "statement-signature": ["The signature is not genuine: the statement was altered or forged.", "签名不真实：声明被改动或伪造。"],
  "key-not-yet-valid": ["The key was not yet in force when the answer began.", "回答开始时该密钥尚未生效。"],
  "key-expired": ["The key is past its time.", "该密钥已过有效期。"],
  "key-revoked": ["The key has been revoked.", "该密钥已被撤销。"],
  "mode-dev": ["The appliance ran in development mode.", "设备运行于开发模式。"],
  "load-unsigned": ["The weights were loaded without a signature.", "权重在无签名的情况下加载。"],
  "not-covered": ["The statement does not cover all parts of the answer.", "声明未覆盖回答的全部内容。"],
  "from-the-future": ["The statement says that the answer ended in the future.", "声明称回答结束于未来。"],
  "expected-signer": ["Another key signed than the one you expected.", "签名密钥与您预期的不同。"],
  "expected-model": ["It is another model than the one you expected.", "模型与您预期的不同。"],
  "expected-nonce": ["It is not an answer to the nonce that you sent.", "不是针对您所发随机数的回答。"],
  "expected-window": ["The answer was made outside of the time you gave.", "回答不在您给定的时间范围内。"],
  "no-checkpoint": ["The bundle has no checkpoint of the log.", "证据包没有日志检查点。"],
  "checkpoint-format": ["The checkpoint is damaged.", "检查点已损坏。"],
  "checkpoint-type": ["A signed object of another kind stands in place of the checkpoint.", "检查点的位置上是另一种签名对象。"],
  "checkpoint-claims": ["The checkpoint lacks something, or says something out of range or unknown.", "检查点有缺失，或含有越界或未知的内容。"],
  "checkpoint-log": ["The checkpoint is of another log.", "检查点属于另一日志。"],
  "checkpoint-role": ["The checkpoint's key is listed for another purpose.", "检查点的密钥被列为其他用途。"],
  "checkpoint-signature": ["The checkpoint's signature is not genuine.", "检查点的签名不真实。"],
  "checkpoint-key": ["No key that you trust, and that is in force, speaks for the checkpoint.", "没有您信任且有效的密钥为检查点作证。"],
  "log-not-pinned": ["Your trust file does not name this log.", "信任文件没有写明此日志。"],
  inclusion: ["The statement is not in the log at the place it claims.", "声明不在其所称的日志位置。"],
  "no-inclusion": ["The proof that the statement is in the log is missing.", "缺少声明已记入日志的证明。"],
  "no-admission": ["The registration of the request is missing.", "缺少请求的登记。"],
  "admission-format": ["The registration is damaged.", "登记已损坏。"],
  "admission-type": ["A signed object of another kind stands in place of the registration.", "登记的位置上是另一种签名对象。"],
  "admission-claims": ["The registration lacks something, or says something out of range or unknown.", "登记有缺失，或含有越界或未知的内容。"],
  "admission-role": ["The registration's key is listed for another purpose.", "登记的密钥被列为其他用途。"],
  "admission-signature": ["The registration's signature is not genuine.", "登记的签名不真实。"],
  "admission-differs": ["What was registered differs from what was answered.", "登记的内容与回答的内容不同。"],
  "admission-key": ["No key that you trust, and that was in force, speaks for the registration.", "没有您信任且有效的密钥为登记作证。"],
  "admission-inclusion": ["The registration is not in the log at the place it claims.", "登记不在其所称的日志位置。"],
  "no-admission-inclusion": ["The proof that the registration is in the log is missing.", "缺少登记已记入日志的证明。"],
  consistency: ["The log was changed since the statement was made.", "作出声明后日志被更改。"],
  "no-consistency": ["The proof that the log only grew is missing.", "缺少日志只增未改的证明。"],
  "expected-head": ["This is not the log whose head you hold.", "这不是您所持日志头对应的日志。"],
  "head-differs": ["The head that you hold is of another size. Ask for a proof between the two (windhover log prove).", "您持有的日志头大小不同，请索取两者之间的证明（windhover log prove）。"],
  "opens-request": ["The request in the bundle is not the one of the statement.", "证据包中的请求与声明不符。"],
  "opens-prompt-ids": ["The prompt's tokens in the bundle are not those of the statement.", "证据包中的提示词元与声明不符。"],
  "opens-transcript": ["The answer in the bundle is not the one of the statement.", "证据包中的回答与声明不符。"],
  "opens-output-ids": ["The answer's tokens in the bundle are not those of the statement.", "证据包中的输出词元与声明不符。"],
  "opens-trace": ["The trace in the bundle is not the one of the statement.", "证据包中的轨迹与声明不符。"],
  "no-request": ["The request was left out of the bundle.", "证据包未附请求。"],
  "no-prompt-ids": ["The prompt's tokens were left out of the bundle.", "证据包未附提示词元。"],
  "no-transcript": ["The answer was left out of the bundle.", "证据包未附回答。"],
  "no-output-ids": ["The answer's tokens were left out of the bundle.", "证据包未附输出词元。"],
  "no-trace": ["The trace was left out of the bundle.", "证据包未附轨迹。"],
  "no-salt-request": ["The salt of the request was left out: it cannot be compared.", "未附请求的盐值，无法比对。"],
  "no-salt-prompt-ids": ["The salt of the prompt's tokens was left out: they cannot be compared.", "未附提示词元的盐值，无法比对。"],
  "no-salt-transcript": ["The salt of the answer was left out: it cannot be compared.", "未附回答的盐值，无法比对。"],
  "no-salt-output-ids": ["The salt of the answer's tokens was left out: they cannot be compared.", "未附输出词元的盐值，无法比对。"],
  "no-salt-trace": ["The salt of the trace was left out: it cannot be compared.", "未附轨迹的盐值，无法比对。"],
  counts: ["The numbers of tokens or positions contradict each other.", "词元或位置的数量相互矛盾。"],
  "transcript-format": ["The answer is not well formed.", "回答的格式不正确。"],
  "finish-reason": ["The answer ended in another way than stated.", "回答的结束方式与声明不同。"],
  seed: ["The seed does not follow from the nonce, as the statement claims.", "种子并非如声明所称由随机数得出。"],
  "expected-request": ["The request you sent is not the one that was answered.", "您发出的请求与被回答的请求不同。"],
  "expected-response": ["The answer you received is not the one of the statement.", "您收到的回答与声明中的回答不同。"],
  "revocations-format": ["The list of withdrawals is damaged.", "撤销列表已损坏。"],
  "revocations-signature": ["The signature of the list of withdrawals is not genuine.", "撤销列表的签名不真实。"],
  "no-revocations": ["You require a list of withdrawals, and there is none.", "您要求撤销列表，但未附。"],
  "revocations-key": ["No key that you trust now speaks for the list of withdrawals.", "目前没有您信任的密钥为撤销列表作证。"],
  "revocations-not-yet-valid": ["The list of withdrawals is dated in the future.", "撤销列表的日期在未来。"],
  "revocations-old": ["The list of withdrawals is older than the oldest you accept.", "撤销列表早于您可接受的最旧版本。"],
  "revocations-stale": ["The list of withdrawals is too long ago.", "撤销列表距今过久。"],
  "release-format": ["A release in the bundle is damaged.", "证据包中的发布声明已损坏。"],
  "release-differs": ["The release speaks of another model than the statement.", "发布声明与声明所指模型不同。"],
  "no-release": ["The release of the model is missing.", "缺少模型的发布声明。"],
  "release-signature": ["The signature of the release is not genuine.", "发布声明的签名不真实。"],
  "release-signer": ["The release was signed by keys that may not sign this line of models.", "发布由无权签署该系列模型的密钥签名。"],
  "release-unknown-signer": ["No key that you trust for weights signed the release.", "没有您信任的权重密钥签署该发布。"],
  "release-unknown-line": ["Your trust file does not have this line of models.", "信任文件没有此模型系列。"],
  "release-key-revoked": ["A key that signed the release has been revoked, and too few others did.", "签署该发布的密钥已被撤销，其余签名不足。"],
  "release-key-expired": ["A key that signed the release is past its time, and too few others did.", "签署该发布的密钥已过有效期，其余签名不足。"],
  "release-key-not-yet-valid": ["A key that signed the release was not yet in force, and too few others did.", "签署该发布的密钥当时尚未生效，其余签名不足。"],
  "release-threshold": ["Too few suppliers signed the release.", "签署该发布的供应方数量不足。"],
  "model-revoked": ["The model has been withdrawn.", "该模型已被撤回。"],
  "release-not-yet-valid": ["The release was not yet valid when the answer began.", "回答开始时该发布尚未生效。"],
  "release-expired": ["The release had expired when the answer began.", "回答开始时该发布已过期。"],
  "release-too-old": ["The release is older than the oldest you accept.", "该发布早于您可接受的最旧版本。"],
};

const SOFTWARE_TEXTS = {
  "ok": ["the appliance says this release's digest", "设备所报摘要即此版本"],
  "software-format": ["the manifest is not well formed", "清单格式不正确"],
  "software-unknown-signer": ["no key that you trust for software signed the manifest", "没有您信任的软件密钥签署该清单"],
  "software-bad-signature": ["the signature of the manifest is not genuine", "清单的签名不真实"],
  "software-no-statement": ["there is no signed statement to compare the manifest with", "没有可与清单比较的已签名声明"],
  "software-key-revoked": ["the key that signed the manifest has been revoked", "签署清单的密钥已被撤销"],
  "software-key-expired": ["the key that signed the manifest is past its time", "签署清单的密钥已过有效期"],
  "software-key-not-yet-valid": ["the key that signed the manifest was not yet in force", "签署清单的密钥当时尚未生效"],
  "software-differs": ["the appliance says another digest", "设备所报为另一摘要"],
};

const FIELD_NAMES = {
  trust: "trustTitle", head: "head", signer: "signer", model: "model", nonce: "nonce",
  request: "request", response: "response", at: "at", after: "after", before: "before",
  need: "need", software: "software",
};
const inLanguage = (pair) => pair[language];
const reasonText = (reason) => inLanguage(REASON_TEXTS[reason] ?? REASON_TEXTS.internal);

/** Every text of the page: pairs of a name and [English, Chinese]. */
function texts() {
  const steps = Object.entries(STEP_TEXTS).flatMap(([number, three]) =>
    three.map((pair, i) => [`step ${number} ${i}`, pair]));
  const reasons = Object.entries(REASON_TEXTS).map(([code, pair]) => [`reason ${code}`, pair]);
  const software = Object.entries(SOFTWARE_TEXTS).map(([code, pair]) => [`software ${code}`, pair]);
  return [...Object.entries(STRINGS), ...steps, ...reasons, ...software];
}
