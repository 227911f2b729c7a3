import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Express, Request, Response } from 'express';
import { systemClock } from '../../base/index.ts';
import { answerUpgrade } from '../../http/index.ts';
import { badRequest } from '../errors.ts';

export interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/** A request of the `upgrade` event takes the same way as any other, so that each refusal is the same Status. */
export function serveUpgrade(app: Express, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const response = answerUpgrade(request, socket, systemClock);
  if (!response) return;
  upgrades.set(request, { socket, head });
  app(request, response);
}

/** The connection, which is no longer the HTTP server's; `client` is a program that asks for it rightly. Throws ApiError. */
export function upgradeOf(request: Request, response: Response, client: 'virtctl' | 'kubectl'): Upgrade {
  const upgrade = upgrades.get(request);
  const what = client === 'virtctl' ? 'a websocket' : 'a stream';
  if (!upgrade) throw badRequest(`this is ${what}: ask with an upgrade, as ${client} does`);
  response.detachSocket(upgrade.socket as Socket);
  return upgrade;
}
