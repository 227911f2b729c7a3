import type { Component } from '../../base/index.ts';
import type { ProcessId } from '../../host/index.ts';
import type { ProxyTls } from './credentials.ts';
import type { EndedStreams, ProxyFigures } from './ports.ts';
import type { ProxyDuty, Side } from './proxy-record.ts';

/** A proxy process that serves. */
export interface KeptProxy {
  readonly duty: ProxyDuty;
  readonly process: ProcessId;
  readonly figures: ProxyFigures;
}

/** Who starts and ends the proxy processes of this node: the agent itself, or the relay beside it. */
export interface ProxyKeeper extends Component {
  /** Under which other nodes reach this one's listeners. */
  readonly address: string;
  /** False: there is no program for it here. */
  readonly supported: boolean;
  /** Why none can be started now, in words for the user. */
  readonly problem: string | undefined;
  /** They go on when the agent's container has ended. */
  readonly outliveAgent: boolean;
  kept(): readonly KeptProxy[];
  find(side: Side, uid: string): ProxyDuty | undefined;
  /** Of the last sides that were ended without an order; a side that is opened for another migration is none of them any more. */
  ended(): readonly EndedStreams[];
  /**
   * The same duty again is no change, another one replaces what is there. Ports of a target's duty count only by their roles: it gets others.
   * Rejects with MigrationProxyError, or with the signal's reason: nothing is left open then.
   */
  open(duty: ProxyDuty, tls: ProxyTls, signal: AbortSignal): Promise<void>;
  /** Safe when there is nothing. */
  close(side: Side, uid: string): Promise<void>;
  /** Something about this key's processes changed, or its memory stopped or began again to move. */
  onChange(listener: (key: string) => void): () => void;
}
