import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { fileSize } from '../file-size.ts';
import type { ImageRow } from '../rows.ts';
import { Card, icon, Nothing, Row, Table } from './elements.tsx';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { Poll, Polled } from './polled.tsx';
import { listImages } from './server-calls.ts';
import { referenceFor, uploadImage } from './upload.ts';
import { messageOf } from './words.ts';

type UploadState =
  | { readonly kind: 'idle'; readonly problem?: string }
  | { readonly kind: 'sending'; readonly part: number }
  | { readonly kind: 'looking' };

/** A file on its way to the node. */
class Upload {
  readonly file = signal<File | undefined>(undefined);
  readonly reference = signal('');
  readonly state = signal<UploadState>({ kind: 'idle' });
  #ending = new AbortController();

  choose(file: File | undefined): void {
    this.file.value = file;
    this.state.value = { kind: 'idle' };
    this.reference.value = file ? referenceFor(file.name) : '';
  }

  /** Gives whether it is there. */
  async send(): Promise<boolean> {
    const file = this.file.value;
    if (!file || this.state.value.kind !== 'idle') return false;
    this.#ending = new AbortController();
    this.state.value = { kind: 'sending', part: 0 };
    const on = {
      progress: (part: number) => {
        this.state.value = { kind: 'sending', part };
      },
      sent: () => {
        this.state.value = { kind: 'looking' };
      },
    };
    try {
      await uploadImage(this.reference.value, file, on, this.#ending.signal);
      this.choose(undefined);
      return true;
    } catch (error) {
      this.state.value = { kind: 'idle', problem: messageOf(error) };
      return false;
    }
  }

  close(): void {
    this.#ending.abort();
  }
}

/** What machines boot from, and new ones of one's own. */
export function ImagesView({ state }: { readonly state: PageState }) {
  const poll = useOwned(() => new Poll((ending) => listImages(ending)));
  useLayoutEffect(() => void poll.now(), [poll]);
  return (
    <section class="images-view">
      <div class="view-head">
        <h1 tabindex={-1}>Images</h1>
      </div>
      <div class="why">
        {!state.isLookOnly.value && <UploadCard state={state} onDone={() => void poll.again()} />}
        <Card title="On this node">
          <Polled poll={poll} failureText={(error) => `The images cannot be listed: ${messageOf(error)}`}>
            {(images) => <Images images={images} />}
          </Polled>
        </Card>
      </div>
    </section>
  );
}

const kinds = { disk: 'disk or ISO', kernel: 'kernel and RAM disk', nothing: 'nothing that boots' } as const;

const head = ['Reference', 'Kind', 'Size on disk'];

export function Images({ images }: { readonly images: readonly ImageRow[] }) {
  if (images.length === 0) return <Nothing>There is none yet: upload one, or run virt-node image add.</Nothing>;
  return (
    <Table head={head} stacks>
      {images.map(({ reference, boots, sizeBytes }) => (
        <Row key={reference} head={head} cells={[reference, kinds[boots], fileSize(sizeBytes)]} />
      ))}
    </Table>
  );
}

function UploadCard({ state, onDone }: { readonly state: PageState; readonly onDone: () => void }) {
  const upload = useOwned(() => new Upload());
  const input = useRef<HTMLInputElement>(null);
  const now = upload.state.value;
  const file = upload.file.value;
  const isIdle = now.kind === 'idle';
  const send = async (event: Event) => {
    event.preventDefault();
    const reference = upload.reference.value;
    if (!(await upload.send())) return;
    if (input.current) input.current.value = '';
    state.say(`${reference} is on the node.`);
    onDone();
  };
  return (
    <Card title="Upload">
      <form class="form upload" onSubmit={(event) => void send(event)}>
        <div class="field">
          <label for="upload-file">File (qcow2, raw, ISO, VMDK, VDI, VHD)</label>
          <input
            ref={input}
            id="upload-file"
            type="file"
            disabled={!isIdle}
            onChange={({ currentTarget }) => upload.choose(currentTarget.files?.[0])}
          />
        </div>
        <div class="field">
          <label for="upload-name">Reference</label>
          <input
            id="upload-name"
            value={upload.reference.value}
            disabled={!isIdle}
            autocomplete="off"
            spellcheck={false}
            onInput={({ currentTarget }) => {
              upload.reference.value = currentTarget.value.trim();
            }}
          />
        </div>
        <div class="buttons">
          {!isIdle && (
            <button type="button" onClick={() => upload.close()}>
              Give up
            </button>
          )}
          <button type="submit" class="primary" disabled={!isIdle || !file || upload.reference.value === ''}>
            {icon('up')}
            Upload{file && ` ${fileSize(file.size)}`}
          </button>
        </div>
        <UploadProgress now={now} />
      </form>
    </Card>
  );
}

function UploadProgress({ now }: { readonly now: UploadState }) {
  if (now.kind === 'idle')
    return now.problem === undefined ? null : (
      <p role="alert" class="is-bad">
        {now.problem}
      </p>
    );
  if (now.kind === 'looking') return <p role="status">All is sent; the node looks at it…</p>;
  return (
    <div role="status">
      <progress aria-label="Upload" max={1} value={now.part} />
      <p class="amount">{Math.floor(now.part * 100)} %</p>
    </div>
  );
}
