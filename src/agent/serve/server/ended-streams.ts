import type { Key } from '../../../api/index.ts';
import type { Component } from '../../../base/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';
import { departureOf } from './departure.ts';

export interface EndedStreamsDeps {
  readonly vmis: Pick<VmiStore, 'get' | 'onChange'>;
  readonly streams: {
    /** Also of those that are being opened, or could be resumed. */
    uidsOf(shown: string): Iterable<string>;
    endAll(uid: string, reason: string): void;
    moveAll(uid: string, node: string): void;
  };
}

/** Ends the streams of a VMI that is no more on this node, or whose name belongs to another one now. */
export class EndedStreams implements Component {
  readonly name = 'streams of gone VMIs';
  readonly #nodeName: string;
  readonly #deps: EndedStreamsDeps;
  /** Where VMIs of this node move to: a VMI that has moved is missing here like one that is gone. */
  readonly #departures = new Map<Key, { readonly uid: string; readonly node: string }>();
  #end: (() => void) | undefined;

  constructor(nodeName: string, deps: EndedStreamsDeps) {
    this.#nodeName = nodeName;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    this.#end = this.#deps.vmis.onChange((key) => this.#look(key));
  }

  async stop(): Promise<void> {
    this.#end?.();
  }

  #look(key: Key): void {
    const { vmis, streams } = this.#deps;
    const vmi = vmis.get(key);
    const { uid } = vmi?.metadata ?? {};
    const departure = this.#departures.get(key);
    const node = vmi && departureOf(vmi, this.#nodeName);
    if (node !== undefined && uid !== undefined) this.#departures.set(key, { uid, node });
    else this.#departures.delete(key);
    const reason =
      uid === undefined ? 'the virtual machine is gone from this node' : 'the virtual machine was restarted';
    for (const streamed of streams.uidsOf(key)) {
      if (streamed === uid) continue;
      if (uid === undefined && departure?.uid === streamed) streams.moveAll(streamed, departure.node);
      else streams.endAll(streamed, reason);
    }
  }
}
