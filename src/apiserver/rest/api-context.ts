import type { Socket } from 'node:net';
import type { Logger } from '../../base/index.ts';
import type { User } from '../access.ts';
import type { ObjectContext, Reader, Remover, Writer } from '../objects/index.ts';
import type { PodExec } from '../pod-exec.ts';
import type { PodLogs } from '../pod-logs.ts';
import type { UploadTokens } from '../upload-tokens.ts';
import type { UsageSource } from '../usage.ts';
import type { PodStreams, VmSubresources } from '../vm-subresources.ts';
import type { TokenAuthenticator } from './auth.ts';
import type { RequestLimits } from './limits.ts';
import type { Watch, WatchStreamOptions } from './watch.ts';

/** What the routes share. */
export interface ApiContext extends ObjectContext {
  readonly log: Logger;
  readonly reader: Reader;
  readonly writer: Writer;
  readonly remover: Remover;
  readonly tokens: TokenAuthenticator;
  readonly podLogs: PodLogs | undefined;
  readonly uploadTokens: UploadTokens | undefined;
  readonly usage: UsageSource | undefined;
  readonly podExec: PodExec | undefined;
  readonly vmSubresources: VmSubresources | undefined;
  readonly podStreams: PodStreams | undefined;
  readonly watchOptions: WatchStreamOptions;
  /** Open watches; ended when the server stops. */
  readonly watches: Set<Watch>;
  readonly limits: RequestLimits;
  readonly extraHosts: readonly string[];
  /** The client of this connection has shown a token that is known. */
  readonly onKnown: (socket: Socket) => void;
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal;
}

/** One authenticated request for a resource. */
export interface ResourceCall {
  readonly user: User;
  readonly query: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly contentType: string | undefined;
  readonly accept: string | undefined;
  readonly userAgent: string | undefined;
}
