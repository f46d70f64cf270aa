import { useFicha } from "@ficha/react";
import { useEffect, useState } from "react";

/** An address under which the page can show a stored file; null until it is known, and where the file is gone. */
export function useFileUrl(id: string | null): string | null {
  const client = useFicha();
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    let isCurrent = true;
    setUrl(null);
    if (id) {
      client.fileUrl(id).then(
        (found) => isCurrent && setUrl(found),
        () => {},
      );
    }
    return () => {
      isCurrent = false;
    };
  }, [client, id]);
  return url;
}
