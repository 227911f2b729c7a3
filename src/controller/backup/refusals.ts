import { backupRefusals } from '../../api/index.ts';
import { errorMessage, goUnquote, plainText } from '../../base/index.ts';
import { isKubeError } from '../../kube/index.ts';

/** What a refused order of a backup proves; `unknown` is no proof of anything. */
export type Refusal = 'nothing-under-way' | 'not-begun' | 'unknown';

/** Of upstream's launcher (checkBackupEligibility of its storage manager): it has no such backup, or no longer. */
const ofUpstream = [
  'could not find ongoing backup',
  'requested backup differs from ongoing one',
  'backup already completed',
] as const;
/** Of agents, ours and upstream's: the launcher was asked, and nobody knows what it did. */
const unanswered = ['unknown error encountered sending command', 'rpc error: code ='] as const;

const beforeCall = 'PUT /apis/subresources.kubevirt.io/';
const beforeCommand = 'server error. command ';
const beforeWords = ' failed: ';

/**
 * What a message says to people, of an order that was refused: the launcher's own words, without the step, call, and quotes of servers
 * around them. All else is given back as it is. Pure.
 */
export function wordsOf(message: string): string {
  const call = message.indexOf(beforeCall);
  if (call < 0) return message;
  const said = behind(message, ': ', call);
  const command = said.indexOf(beforeCommand);
  const words = command < 0 ? undefined : goUnquote(behind(said, beforeWords, command));
  return words ? plainText(words) : said;
}

function behind(text: string, mark: string, from: number): string {
  const at = text.indexOf(mark, from);
  return at < 0 ? text : text.slice(at + mark.length);
}

/** By text: agents have one status, 400, for whatever a launcher did not do; undefined: it is no such refusal. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (!isKubeError(error) || error.httpStatus !== 400) return undefined;
  const words = wordsOf(errorMessage(error));
  const says = (texts: readonly string[]) => texts.some((text) => words.includes(text));
  if (says([backupRefusals.nothingToAbort, ...ofUpstream])) return 'nothing-under-way';
  return says([backupRefusals.unknownStart, ...unanswered]) ? 'unknown' : 'not-begun';
}
