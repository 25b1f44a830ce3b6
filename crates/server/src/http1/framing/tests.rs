use super::*;

/// Takes a body that arrives in pieces of this size; returns what it contains, and the rest.
fn take_all(mut framing: Framing, text: &str, size: usize) -> Result<(String, String), Taken> {
    let mut received = BytesMut::new();
    let mut pieces = text.as_bytes().chunks(size);
    let mut body = Vec::new();
    loop {
        match framing.take(&mut received) {
            Taken::Data(bytes) => body.extend_from_slice(&bytes),
            Taken::Incomplete => match pieces.next() {
                Some(piece) => received.extend_from_slice(piece),
                None => return Err(Taken::Incomplete),
            },
            Taken::End => {
                assert!(framing.is_complete());
                received.extend(pieces.flatten());
                let text = |bytes| String::from_utf8(bytes).unwrap();
                return Ok((text(body), text(received.into())));
            }
            Taken::Malformed => {
                assert_eq!(framing, Framing::Malformed);
                return Err(Taken::Malformed);
            }
        }
    }
}

#[test]
fn a_body_ends_at_its_length() {
    for size in [1, 3, 100] {
        let taken = take_all(Framing::Length(4), "bodynext", size);
        assert_eq!(taken, Ok(("body".into(), "next".into())));
    }
    assert_eq!(
        take_all(Framing::Length(4), "bod", 1),
        Err(Taken::Incomplete)
    );
}

#[test]
fn chunks_are_joined() {
    for (text, body) in [
        ("0\r\n\r\nnext", ""),
        ("4\r\nbody\r\n0\r\n\r\nnext", "body"),
        (
            "2;a=b;c\r\nbo\r\n02;\"\t\u{e4}\"\r\ndy\r\n000\r\nA: b\r\n\r\nnext",
            "body",
        ),
        (
            "000000000000000A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\nnext",
            "01234567890123456789",
        ),
    ] {
        for size in [1, 2, 3, 100] {
            let taken = take_all(Framing::chunked(), text, size);
            assert_eq!(taken, Ok((body.into(), "next".into())), "{text:?}");
        }
    }
}

#[test]
fn malformed_chunks_are_rejected() {
    for text in [
        "\r\n",
        "x\r\n",
        "+1\r\na\r\n",
        "0x1\r\na\r\n",
        " 1\r\na\r\n",
        "1 \r\na\r\n",
        "1\na\r\n",
        "1;\0\r\na\r\n",
        "1;a\rb\r\na\r\n",
        "1\r\nab\r\n",
        "1\r\na\n0\r\n\r\n",
        "10000000000000000\r\n",
        "00000000000000001\r\na\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nA: b\r\n folded\r\n\r\n",
        "0\r\n\n",
    ] {
        for size in [1, 100] {
            let taken = take_all(Framing::chunked(), text, size);
            assert_eq!(taken, Err(Taken::Malformed), "{text:?}");
        }
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let long = "x".repeat(MAX_HEAD_BYTES);
    let many = format!("1;{}\r\na\r\n", "x".repeat(1000)).repeat(20);
    for text in [
        format!("1;{long}\r\na\r\n0\r\n\r\n"),
        format!("0\r\nA: {long}\r\n\r\n"),
        format!("0\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEAD_BYTES / 4)),
        "1".repeat(MAX_HEAD_BYTES + 1),
        format!("{many}0\r\n\r\n"),
    ] {
        let taken = take_all(Framing::chunked(), &text, 1000);
        assert_eq!(taken, Err(Taken::Malformed), "{:?}", &text[..20]);
    }
}
