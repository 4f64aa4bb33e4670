"""Events from other threads arrive on the Qt thread, all of them and in order."""

import threading

from app.bridge import Bridge


def test_everything_arrives_in_order_on_the_qt_thread(qtbot):
    arrived = []
    bridge = Bridge(lambda event: arrived.append((event, threading.current_thread())))
    senders = [
        threading.Thread(target=lambda name=name: [bridge.send((name, number)) for number in range(500)])
        for name in ("recorder", "engine")
    ]
    for sender in senders:
        sender.start()
    qtbot.waitUntil(lambda: len(arrived) == 1000)
    for sender in senders:
        sender.join()
    assert {thread for _, thread in arrived} == {threading.current_thread()}
    for name in ("recorder", "engine"):
        assert [number for (sender, number), _ in arrived if sender == name] == list(range(500))


def test_nothing_is_handled_before_send_returns_nor_after_close(qtbot):
    arrived = []
    bridge = Bridge(arrived.append)
    bridge.send("late")
    assert arrived == []
    bridge.close()
    bridge.send("later")
    qtbot.wait(20)
    assert arrived == []
