import { useLayoutEffect, useRef } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { keyOfRow } from './page-state.ts';
import { hasGuest } from './row-model.ts';
import { screenshot } from './server-calls.ts';

const everyMs = 10_000;
const tickMs = 500;
/** Each picture makes QEMU write out its screen. */
const atOnce = 2;

interface ThumbnailProps {
  readonly of: VmRow;
  readonly thumbnails: Thumbnails;
  readonly width: number;
  readonly height: number;
  /** Absent: it is decoration. */
  readonly label?: string;
}

/** The screen of a VM in small. What is painted is the business of `thumbnails`. */
export function Thumbnail({ of: row, thumbnails, label, ...size }: ThumbnailProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (canvas.current) thumbnails.show(canvas.current, row);
  }, [row, thumbnails]);
  useLayoutEffect(() => {
    const element = canvas.current;
    return () => element && thumbnails.forget(element);
  }, [thumbnails]);
  return <canvas ref={canvas} role={label === undefined ? undefined : 'img'} aria-label={label} {...size} />;
}

interface Picture {
  row: VmRow;
  isVisible: boolean;
  dueMs: number;
  /** In a row. */
  failures: number;
}

/** Small pictures of screens: only of those that are in sight and run, one after the other, each anew after a while. */
export class Thumbnails {
  readonly #known = new Map<HTMLCanvasElement, Picture>();
  readonly #ending = new AbortController();
  #observer: IntersectionObserver | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  #running = 0;

  show(canvas: HTMLCanvasElement, row: VmRow): void {
    const known = this.#known.get(canvas);
    if (known) known.row = row;
    else {
      this.#known.set(canvas, { row, isVisible: false, dueMs: 0, failures: 0 });
      this.#observer ??= new IntersectionObserver((entries) => this.#seen(entries));
      this.#observer.observe(canvas);
      this.#timer ??= setInterval(() => this.#next(), tickMs);
    }
    if (!hasGuest(row)) clear(canvas);
  }

  forget(canvas: HTMLCanvasElement): void {
    this.#observer?.unobserve(canvas);
    this.#known.delete(canvas);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#observer?.disconnect();
    this.#ending.abort();
  }

  #seen(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting } of entries) {
      const known = this.#known.get(target as HTMLCanvasElement);
      if (known) known.isVisible = isIntersecting;
    }
    this.#next();
  }

  #next(): void {
    if (document.hidden) return;
    const now = performance.now();
    const due = [...this.#known]
      .filter(([, { row, isVisible, dueMs }]) => isVisible && dueMs <= now && hasGuest(row))
      .sort(([, one], [, other]) => one.dueMs - other.dueMs);
    for (const [canvas, picture] of due.slice(0, atOnce - this.#running)) {
      picture.dueMs = now + everyMs;
      void this.#draw(canvas, picture);
    }
  }

  async #draw(canvas: HTMLCanvasElement, picture: Picture): Promise<void> {
    const { row } = picture;
    this.#running++;
    try {
      const bitmap = await createImageBitmap(await screenshot(row, this.#ending.signal));
      const current = this.#known.get(canvas)?.row;
      if (current && keyOfRow(current) === keyOfRow(row) && hasGuest(current)) paint(canvas, bitmap);
      bitmap.close();
      picture.failures = 0;
    } catch {
      // A screen that cannot be had now has no picture; the rest of the row says what is the matter.
      picture.dueMs += everyMs * 2 ** Math.min(picture.failures++, 4);
    } finally {
      this.#running--;
      if (!this.#ending.signal.aborted) this.#next();
    }
  }
}

/** As large as fits, in the middle. */
function paint(canvas: HTMLCanvasElement, picture: ImageBitmap): void {
  const context = canvas.getContext('2d');
  if (!context) return;
  const scale = Math.min(canvas.width / picture.width, canvas.height / picture.height);
  const [width, height] = [picture.width * scale, picture.height * scale];
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
  canvas.dataset.hasPicture = '';
}

function clear(canvas: HTMLCanvasElement): void {
  if (!('hasPicture' in canvas.dataset)) return;
  canvas.getContext('2d')?.clearRect(0, 0, canvas.width, canvas.height);
  delete canvas.dataset.hasPicture;
}
