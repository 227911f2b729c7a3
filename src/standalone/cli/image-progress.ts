/** Where a person looks while something takes long. */
export interface ProgressOutput {
  readonly isTTY: boolean;
  write(text: string): void;
}

/** One line that changes, on a terminal; elsewhere nothing, so that no log is filled with it. */
export function progressLine({ isTTY, write }: ProgressOutput) {
  let last = '';
  return {
    show: (doing: string, share?: number) => {
      const text = share === undefined ? doing : `${doing} ${Math.floor(share * 100)} %`;
      if (!isTTY || text === last) return;
      last = text;
      write(`\r\x1b[K${text}`);
    },
    /** Takes the line away. */
    end: () => {
      if (last !== '') write('\r\x1b[K');
      last = '';
    },
  };
}
