import type { Key } from '../../../api/index.ts';
import type { Component } from '../../../base/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';

export interface EndedStreamsDeps {
  readonly vmis: Pick<VmiStore, 'get' | 'onChange'>;
  readonly streams: {
    /** Also of those that are being opened, or could be resumed. */
    uidsOf(shown: string): Iterable<string>;
    endAll(uid: string, reason: string): void;
  };
}

/** Ends the streams of a VMI that is no more on this node, or whose name belongs to another one now. */
export class EndedStreams implements Component {
  readonly name = 'streams of gone VMIs';
  readonly #deps: EndedStreamsDeps;
  #end: (() => void) | undefined;

  constructor(deps: EndedStreamsDeps) {
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
    const uid = vmis.get(key)?.metadata.uid;
    const reason =
      uid === undefined ? 'the virtual machine is gone from this node' : 'the virtual machine was restarted';
    for (const streamed of streams.uidsOf(key)) {
      if (streamed !== uid) streams.endAll(streamed, reason);
    }
  }
}
