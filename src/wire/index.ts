/**
 * Owns: the messages and services between agent and launcher, agent and kubelet, launcher and hook sidecars (generated from proto/), and
 * what both ends of such a socket share: targets of any length, channel and server options, listening, version negotiation, domain JSON.
 * Field names are the wire's, letter for letter. `Response` and others exist in two packages, hence one name per file:
 * `cmd.CmdService`, `cmd.VMIRequest`, `notify.NotifyClient`...
 * Must not know: VMIs, who calls, what an answer means.
 */

export * from './domain-json.ts';
export * from './errors.ts';
export * as cmd from './gen/cmd.ts';
export * as cmdInfo from './gen/cmd-info.ts';
export * as devicePlugin from './gen/deviceplugin.ts';
export * as hooks from './gen/hooks.ts';
export * as hooksInfo from './gen/hooks-info.ts';
export * as notify from './gen/notify.ts';
export * as notifyInfo from './gen/notify-info.ts';
export * from './json-limits.ts';
export * from './options.ts';
export * from './serve.ts';
export * from './unix-path.ts';
export * from './versions.ts';
