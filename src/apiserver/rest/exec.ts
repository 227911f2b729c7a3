import type { Request, Response } from 'express';
import { isRecord } from '../../base/index.ts';
import { ApiError, badRequest } from '../errors.ts';
import { type ApiObject, at, objectsAt, stringAt } from '../object.ts';
import type { ExecWish } from '../pod-exec.ts';
import type { ApiContext } from './api-context.ts';
import { isTrue } from './request.ts';
import { upgradeOf } from './upgrade.ts';

/** Older ones speak SPDY, which no other client needs. */
const advice =
  'as kubectl 1.31 and later do by themselves, and 1.29 and 1.30 with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true; SPDY is not spoken here';

/** `pods/exec`: what is asked for is checked before anything is upgraded or run. Throws ApiError. */
export function serveExec(context: ApiContext, pod: ApiObject, request: Request, response: Response): void {
  const { podExec } = context;
  if (!podExec) throw new ApiError('NOT_IMPLEMENTED', 'this server was started without a way into pods');
  const wish = execWish(pod, new URL(request.url, 'http://api').searchParams);
  if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
    throw badRequest(`this is a websocket: ask with an upgrade, ${advice}`);
  }
  const { socket, head } = upgradeOf(request, response, 'kubectl');
  // Who asked has been checked.
  delete request.headers.authorization;
  podExec.serve(wish, request, socket, head);
}

function execWish(pod: ApiObject, query: URLSearchParams): ExecWish {
  const container = containerOf(pod, query.get('container') ?? '');
  const command = query.getAll('command');
  if (command.length === 0 || command[0] === '') throw badRequest('you must specify at least 1 command for exec');
  if (command.some((word) => word.includes('\0'))) throw badRequest('a command has no NUL bytes');
  const flag = (name: string) => query.has(name) && isTrue(query.get(name) ?? '');
  const wish = { stdin: flag('stdin'), stdout: flag('stdout'), stderr: flag('stderr'), tty: flag('tty') };
  if (!wish.stdin && !wish.stdout && !wish.stderr) {
    throw badRequest('you must specify at least one of stdin, stdout, stderr');
  }
  if (wish.tty && wish.stderr) throw badRequest('tty and stderr cannot both be true: a terminal has one output');
  const phase = stringAt(pod, 'status', 'phase');
  if (phase !== 'Running') {
    throw badRequest(
      `cannot exec into a container of pod ${pod.metadata.name}: it is ${phase ?? 'Pending'}, not Running`,
    );
  }
  const nodeName = stringAt(pod, 'spec', 'nodeName') ?? '';
  return { uid: pod.metadata.uid ?? '', nodeName, container: container.name, env: container.env, command, ...wish };
}

interface ExecContainer {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The first one is the only one with a process of its own here. */
function containerOf(pod: ApiObject, asked: string): ExecContainer {
  const [first, ...others] = [...objectsAt(pod, 'spec', 'containers'), ...objectsAt(pod, 'spec', 'initContainers')];
  const name = stringAt(first, 'name') ?? '';
  if (asked !== '' && asked !== name) {
    const isThere = others.some((other) => stringAt(other, 'name') === asked);
    const why = isThere
      ? `has nothing to join on this node: use -c ${name}`
      : `is not valid for pod ${pod.metadata.name}`;
    throw badRequest(`container ${asked} ${why}`);
  }
  const given = objectsAt(first, 'env').flatMap((variable) => {
    const [key, value] = [at(variable, 'name'), at(variable, 'value')];
    return typeof key === 'string' && typeof value === 'string' && !isRecord(value) ? [[key, value] as const] : [];
  });
  return { name, env: Object.fromEntries(given) };
}
