import type { Clock, Logger } from '../base/index.ts';
import type { ApiToken } from './access.ts';
import type { PodExec } from './pod-exec.ts';
import type { PodLogs } from './pod-logs.ts';
import type { RequestLimits } from './rest/index.ts';
import type { UploadTokens } from './upload-tokens.ts';
import type { UsageSource } from './usage.ts';
import type { PodStreams, VmSubresources } from './vm-subresources.ts';

/** PEM texts. */
export interface TlsFiles {
  readonly key: string;
  readonly cert: string;
}

export interface ApiServerOptions {
  /** Directory of the database; made when missing. One server at a time. */
  readonly dataDir: string;
  /** Address to listen on. A loopback address: nothing here is made for a network. */
  readonly host: string;
  /** 0 takes a free one; `start` returns which. */
  readonly port: number;
  /** undefined serves plain HTTP: for tests only. */
  readonly tls: TlsFiles | undefined;
  readonly tokens: readonly ApiToken[];
  /** Host names besides loopback ones that a request may carry in `Host`. */
  readonly extraHosts?: readonly string[];
  /** Changes kept for watches that resume; older ones get 410. Default 10,000. */
  readonly historySize?: number;
  /** Bytes of objects kept in that history. Default 8 MiB. */
  readonly historyBytes?: number;
  /** Time between bookmarks of one watch. Default 60 s. */
  readonly bookmarkIntervalMs?: number;
  /** Unsent bytes at which a watch waits until its client has read them. Default 256 KiB. */
  readonly watchBufferBytes?: number;
  /** Connections at once; the oldest whose client has shown no token ends for the next. Default 2,048. */
  readonly maxConnections?: number;
  /** How much one user, and all of them, may have at a time. */
  readonly limits?: Partial<RequestLimits>;
  /** User of new launchers without the gate Root. Default 107, as in KubeVirt. */
  readonly launcherUser?: 0 | 107;
  /** Events are dropped this long after they were last seen. Default 1 h, as in Kubernetes. */
  readonly eventTtlMs?: number;
  /** `none` keeps every field, as a cluster with other definitions may: for tests of programs that have to stand such objects. */
  readonly schemas?: 'shipped' | 'none';
}

export interface ApiServerDeps {
  readonly log: Logger;
  readonly clock?: Clock;
  /** Without it `pods/log` answers 501. */
  readonly podLogs?: PodLogs;
  /** Without it `uploadtokenrequests` answer 501. */
  readonly uploadTokens?: UploadTokens;
  /** Without it `kubectl top` is answered with 501. */
  readonly usage?: UsageSource;
  /** Without it `pods/exec` answers 501. */
  readonly podExec?: PodExec;
  /** Without it `subresources.kubevirt.io` answers 501. */
  readonly vmSubresources?: VmSubresources;
  /** Without it `pods/portforward` answers 501. */
  readonly podStreams?: PodStreams;
}
