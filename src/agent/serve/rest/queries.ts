import { errorMessage, isPlainJson, isRecord, plainTexts } from '../../../base/index.ts';
import type { Answer } from './answers.ts';
import { ask, type Call, type LauncherCallDeps } from './call.ts';
import { RestError } from './errors.ts';
import type { LauncherCommands } from './ports.ts';

type Handler = (call: Call) => Promise<Answer>;
type Question = (launcher: LauncherCommands, signal: AbortSignal) => Promise<string>;

/** Routes that only ask. */
export function queryHandlers(deps: LauncherCallDeps) {
  const answering = (question: Question, toValue: (value: unknown) => unknown): Handler => {
    return async (call) => ({ kind: 'json', value: toValue(parse(await ask(call, deps, question))) });
  };
  return {
    guestosinfo: answering((launcher, signal) => launcher.guestInfo(signal), guestInfo),
    userlist: answering((launcher, signal) => launcher.users(signal), listObject),
    filesystemlist: answering((launcher, signal) => launcher.filesystems(signal), listObject),
    fetchcertchain: answering((launcher, signal) => launcher.sevInfo(signal), object),
    querylaunchmeasurement: answering((launcher, signal) => launcher.launchMeasurement(signal), object),
    screenshot: async (call: Call): Promise<Answer> => {
      const { mime, data } = await ask(call, deps, (launcher, signal) => launcher.screenshot(signal));
      if (data.length === 0) throw unusable('a screenshot without a picture');
      return { kind: 'picture', mime, data };
    },
  } satisfies Record<string, Handler>;
}

/** An empty text is upstream's word for a value without anything in it. */
function parse(json: string): unknown {
  if (json === '') return null;
  try {
    const value: unknown = JSON.parse(json);
    return isPlainJson(json) ? value : plainTexts(value);
  } catch (error) {
    throw unusable('what is no JSON', error);
  }
}

function object(value: unknown): Record<string, unknown> {
  if (value === null) return {};
  if (!isRecord(value)) throw unusable('what is no object');
  return value;
}

/** These two are always there, as upstream's encoder writes them. */
function guestInfo(value: unknown): object {
  const info = object(value);
  const fsInfo = isRecord(info.fsInfo) ? info.fsInfo : {};
  return { ...info, os: info.os ?? {}, fsInfo: { ...fsInfo, disks: fsInfo.disks ?? null } };
}

function listObject(items: unknown): object {
  if (items !== null && !Array.isArray(items)) throw unusable('what is no list');
  return { metadata: {}, items };
}

function unusable(what: string, cause?: unknown): RestError {
  const detail = cause === undefined ? '' : ` (${errorMessage(cause).slice(0, 100)})`;
  return new RestError('LAUNCHER_FAILED', `the launcher answered ${what}${detail}`, { cause });
}
