import { kubeconfigText } from '../../apiserver/index.ts';
import { errorMessage, isRecord, sleep } from '../../base/index.ts';
import { isKubeError, type KubeClient, loadKubeAccess } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { draftFileAtomic, readIfThere } from '../files.ts';
import type { NodePaths } from '../paths.ts';
import {
  checkNamespaceName,
  checkUserName,
  newUser,
  UserAccounts,
  type UserList,
  type UserRights,
} from '../supervisor/index.ts';
import { type OutputFormat, printed } from './answer-format.ts';
import { connectToNode, notAnswering } from './find-vmi.ts';

export interface UserWish extends UserRights {
  readonly user: string;
  /** Milliseconds; undefined: until it is revoked. */
  readonly lastsMs: number | undefined;
  /** A file; undefined: standard output. */
  readonly output: string | undefined;
}

export interface UserAnswer {
  /** A kubeconfig, for standard output. Absent: it was written to a file. */
  readonly kubeconfig?: string;
  /** A sentence for people. */
  readonly said: string;
}

const inForceMs = 5_000;
const accessReviews = '/apis/authorization.k8s.io/v1/subjectaccessreviews';

/** The administrator's own. Throws NodeError NOT_RUNNING. */
export async function adminKubeconfig(paths: NodePaths): Promise<string> {
  const text = await readIfThere(paths.kubeconfig);
  if (text !== undefined) return text;
  const why = 'no node was started there, or you are not its user (root)';
  throw new NodeError('NOT_RUNNING', `${paths.kubeconfig} cannot be read: ${why}`);
}

/** Makes an ordinary user of the API with a token of its own, or gives an old one a new token and new rights. Throws NodeError. */
export async function addUser(paths: NodePaths, wish: UserWish, now: Date): Promise<UserAnswer> {
  const { user, namespace, readOnly, lastsMs, output } = wish;
  checkUserName(user);
  if (namespace !== undefined) checkNamespaceName(namespace);
  const client = await connectToNode(paths);
  try {
    await needNamespace(client, namespace);
    const { server, ca } = await loadKubeAccess({ kubeconfig: paths.kubeconfig });
    const accounts = new UserAccounts(paths.usersDir);
    const isOld = (await accounts.list()).records.some((record) => record.user === user);
    const { record, token } = newUser(user, { readOnly, ...(namespace && { namespace }) }, { now, lastsMs });
    const text = kubeconfigText({ server, ca: ca?.toString(), user, token, namespace: namespace ?? 'default' });
    const file = output === undefined ? undefined : await draftOf(output, text);
    try {
      await accounts.put(record);
      await untilKnown(client, user, true);
      await file?.keep();
    } catch (error) {
      await file?.discard();
      throw error;
    }
    const old = isOld ? '; its token of before is worth nothing now' : '';
    const said = `${user} may ${rightsText(record)}${old}; to end that: virt-node kubeconfig --user ${user} --revoke`;
    if (!file) return { kubeconfig: text, said };
    return { said: `${output} is written, with a token in it. ${said}` };
  } finally {
    client.close();
  }
}

/** Written before the token of before is worth nothing: a file that cannot be takes nobody's right away. Throws NodeError NO_PERMISSION. */
async function draftOf(output: string, text: string) {
  try {
    return await draftFileAtomic(output, text);
  } catch (cause) {
    const why = `${output} cannot be written (${errorMessage(cause)}): nothing was changed, choose another file`;
    throw new NodeError('NO_PERMISSION', why, { cause });
  }
}

/** Also while the node does not run. Throws NodeError. */
export async function revokeUser(paths: NodePaths, user: string): Promise<string> {
  const accounts = new UserAccounts(paths.usersDir);
  checkUserName(user);
  if (!(await accounts.remove(user))) {
    const { records } = await accounts.list();
    const names = records.map((record) => record.user).join(', ') || 'none';
    throw new NodeError('NOT_FOUND', `there is no user ${user}; the users of this node: ${names}`);
  }
  const client = await connectToNode(paths).catch(() => undefined);
  try {
    if (client) await untilKnown(client, user, false);
  } catch (error) {
    if (!(error instanceof NodeError && error.code === 'NOT_RUNNING')) throw error;
  } finally {
    client?.close();
  }
  return `${user} is no user of this node any more`;
}

/** Throws NodeError. */
export async function listUsers(paths: NodePaths, output: OutputFormat, now: Date): Promise<string> {
  const list = await new UserAccounts(paths.usersDir).list();
  return printed(output, {
    head: ['USER', 'NAMESPACE', 'RIGHTS', 'CREATED', 'EXPIRES'],
    rows: [...list.records.map((record) => userRow(record, now)), ...list.damaged.map(damagedRow)],
    names: list.records.map(({ user }) => user),
    // What lets in is no figure to print, not even its digest.
    document: { kind: 'UserList', items: list.records.map(({ digest: _, ...shown }) => shown), damaged: list.damaged },
    empty: 'there are no users besides admin: virt-node kubeconfig --user NAME makes one',
  });
}

function userRow(record: UserList['records'][number], now: Date): string[] {
  const { user, namespace = '(all)', readOnly, createdAt, expiresAt } = record;
  const isOver = expiresAt !== undefined && Date.parse(expiresAt) <= now.getTime();
  return [
    user,
    namespace,
    readOnly ? 'read' : 'edit',
    createdAt,
    expiresAt ? `${expiresAt}${isOver ? ' (over)' : ''}` : 'never',
  ];
}

function damagedRow(file: string): string[] {
  return [file, '-', 'none: the file is damaged', '-', '-'];
}

function rightsText({ namespace, readOnly, expiresAt }: UserList['records'][number]): string {
  const what = readOnly ? 'look at objects, and use no console' : 'make and use VMs';
  const where = namespace === undefined ? 'in all namespaces' : `in the namespace ${namespace} only`;
  return `${what} ${where}${expiresAt === undefined ? '' : ` until ${expiresAt}`}`;
}

async function needNamespace(client: KubeClient, namespace: string | undefined): Promise<void> {
  if (namespace === undefined) return;
  try {
    await client.raw({ method: 'GET', path: `/api/v1/namespaces/${namespace}` });
  } catch (cause) {
    if (!isKubeError(cause, 'NOT_FOUND')) throw notAnswering(cause);
    const text = `there is no namespace ${namespace}: kubectl create namespace ${namespace}`;
    throw new NodeError('NOT_FOUND', text, { cause });
  }
}

/** The API's program reads the users by itself; what is said afterwards is to be true. */
async function untilKnown(client: KubeClient, user: string, wanted: boolean): Promise<void> {
  // What every user may do.
  const resourceAttributes = { group: 'authentication.k8s.io', resource: 'selfsubjectreviews', verb: 'create' };
  const late = AbortSignal.timeout(inForceMs);
  for (;;) {
    const body = { spec: { user, resourceAttributes } };
    const answer = await client
      .raw<unknown>({ method: 'POST', path: accessReviews, body })
      .catch((cause: unknown) => Promise.reject(notAnswering(cause)));
    const status = isRecord(answer) && isRecord(answer.status) ? answer.status : {};
    if ((status.allowed === true) === wanted) return;
    if (late.aborted) {
      const text = `the API did not take the change of ${user} within ${inForceMs / 1000} s: see its log, and start the node again`;
      throw new NodeError('TIMEOUT', text);
    }
    await sleep(50);
  }
}
