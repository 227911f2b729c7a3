import { KubeError } from '../../kube/index.ts';
import { NodeError, type NodeErrorCode } from '../errors.ts';

/** What a script can rely on; the table of docs/operators-guide/cli.md. */
export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  notRunning: 3,
  notFound: 4,
  noPermission: 5,
  refused: 6,
  timeout: 7,
} as const;

const byCode: Partial<Record<NodeErrorCode, number>> = {
  USAGE: exitCodes.usage,
  NOT_RUNNING: exitCodes.notRunning,
  AGENT_AWAY: exitCodes.notRunning,
  NOT_FOUND: exitCodes.notFound,
  IMAGE_MISSING: exitCodes.notFound,
  NO_PERMISSION: exitCodes.noPermission,
  UNSAFE_STATE_DIR: exitCodes.noPermission,
  NO_CONSOLE: exitCodes.refused,
  AGENT_REFUSED: exitCodes.refused,
  UNSUPPORTED: exitCodes.refused,
  ALREADY_RUNNING: exitCodes.refused,
  NODE_IN_USE: exitCodes.refused,
  TIMEOUT: exitCodes.timeout,
};

const byKubeCode: Partial<Record<KubeError['code'], number>> = {
  UNREACHABLE: exitCodes.notRunning,
  NOT_FOUND: exitCodes.notFound,
  TIMEOUT: exitCodes.timeout,
};

/** Of the process, after this error. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof NodeError) return byCode[error.code] ?? exitCodes.failed;
  if (error instanceof KubeError) return byKubeCode[error.code] ?? exitCodes.failed;
  return exitCodes.failed;
}
